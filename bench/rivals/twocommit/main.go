// Command twocommit is a rival in the benchmark: the charge service behind the usual
// idempotency middleware, written by hand on net/http. The key is committed before the work
// and the answer after it; a crash in between leaves a key whose outcome is unknown. It says
// its address on a line and ends with its standard input.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "twocommit:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cfg, err := pgxpool.ParseConfig(os.Getenv("ONCE_BENCH_DATABASE"))
	if err != nil {
		return err
	}
	cfg.MinConns, cfg.MaxConns = 16, 16
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	mux := http.NewServeMux()
	mux.Handle("POST /charges", protect(pool, charge(pool)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until who has started this is gone
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// receipt is that of the other contestants.
type receipt struct {
	Object      string `json:"object"`
	ID          string `json:"id"`
	Entry       string `json:"ledger_entry"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Customer    string `json:"customer"`
	Status      string `json:"status"`
	Description string `json:"description"`
	Self        string `json:"self"`
}

// charge is the handler that is protected: a transaction of its own.
func charge(pool *pgxpool.Pool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o struct {
			Amount   int64  `json:"amount"`
			Currency string `json:"currency"`
			Customer string `json:"customer"`
			Memo     string `json:"memo"`
		}
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c := receipt{
			Object: "charge", ID: newID("ch_"), Entry: newID("le_"), Amount: o.Amount, Currency: o.Currency,
			Customer: o.Customer, Status: "succeeded", Description: o.Memo,
		}
		c.Self = "https://api.example.com/charges/" + c.ID
		ctx := r.Context()
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into charge (id, customer, amount, currency) values ($1, $2, $3, $4)`, c.ID, c.Customer, c.Amount, c.Currency)
			if err == nil {
				_, err = tx.Exec(ctx, `insert into ledger_entry (id, charge_id, account, direction, amount) values ($1, $2, $3, $4, $5)`,
					c.Entry, c.ID, "receivable", "debit", c.Amount)
			}
			return err
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body, err := json.Marshal(c)
		if err != nil {
			panic(err) // strings and a number
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})
}

// newID sorts by time, as the ids of the other contestants do.
func newID(prefix string) string {
	var b [16]byte
	rand.Read(b[6:])
	now := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint32(b[:4], uint32(now>>16))
	binary.BigEndian.PutUint16(b[4:6], uint16(now))
	return prefix + hex.EncodeToString(b[:])
}
