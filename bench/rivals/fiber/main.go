// Command fiber is a rival in the benchmark: the charge service behind Fiber's
// idempotency middleware, which keeps answers in memory. It says its address on a line
// and ends with its standard input.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "fiber:", err)
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
	app := fiber.New()
	app.Use(idempotency.New(idempotency.Config{
		KeyHeader:         "Idempotency-Key",
		KeyHeaderValidate: func(string) error { return nil },
	}))
	app.Post("/charges", func(c fiber.Ctx) error { return charge(c, pool) })
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = app.Shutdown()
	}()
	return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
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

func charge(c fiber.Ctx, pool *pgxpool.Pool) error {
	var o struct {
		Amount   int64  `json:"amount"`
		Currency string `json:"currency"`
		Customer string `json:"customer"`
		Memo     string `json:"memo"`
	}
	if err := json.Unmarshal(c.Body(), &o); err != nil {
		return err
	}
	r := receipt{
		Object: "charge", ID: newID("ch_"), Entry: newID("le_"), Amount: o.Amount, Currency: o.Currency,
		Customer: o.Customer, Status: "succeeded", Description: o.Memo,
	}
	r.Self = "https://api.example.com/charges/" + r.ID
	err := pgx.BeginFunc(c, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(c, `insert into charge (id, customer, amount, currency) values ($1, $2, $3, $4)`, r.ID, r.Customer, r.Amount, r.Currency)
		if err == nil {
			_, err = tx.Exec(c, `insert into ledger_entry (id, charge_id, account, direction, amount) values ($1, $2, $3, $4, $5)`,
				r.Entry, r.ID, "receivable", "debit", r.Amount)
		}
		return err
	})
	if err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.Set("Content-Type", "application/json")
	return c.Status(fiber.StatusCreated).Send(body)
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
