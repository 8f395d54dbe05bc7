package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// oldServer is the service before the change: it keeps its keys itself.
func oldServer(pool *pgxpool.Pool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /refunds", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		var a oldAnswer
		err = pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			var found bool
			if a, found, err = oldClaim(r.Context(), tx, account(r), r.Header.Get("Idempotency-Key"), body); err != nil || found {
				return err
			}
			if a, err = refund(r.Context(), tx, body); err != nil || a.Status >= 400 {
				return err
			}
			return oldComplete(r.Context(), tx, account(r), r.Header.Get("Idempotency-Key"), a)
		})
		if errors.Is(err, errOtherRequest) {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		if err != nil {
			http.Error(w, "the request has failed: try again", http.StatusServiceUnavailable)
			return
		}
		a.write(w)
	})
	return mux
}

// oldAnswer is an answer that the old table keeps.
type oldAnswer struct {
	Status int
	Body   []byte
}

func (a oldAnswer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // after a lost connection the client asks again
}

// oldClaim claims a key, or returns its stored answer. It waits for another transaction that has claimed the key.
func oldClaim(ctx context.Context, tx pgx.Tx, account, key string, body []byte) (a oldAnswer, found bool, err error) {
	request := sha256.Sum256(body)
	tag, err := tx.Exec(ctx, "insert into idempotency_key (account, key, request) values ($1, $2, $3) on conflict do nothing", account, key, request[:])
	if err != nil || tag.RowsAffected() == 1 {
		return a, false, err
	}
	var before []byte
	if err := tx.QueryRow(ctx, "select request, status, answer from idempotency_key where account = $1 and key = $2", account, key).Scan(&before, &a.Status, &a.Body); err != nil {
		return a, false, err
	}
	if !bytes.Equal(before, request[:]) {
		return a, false, errOtherRequest
	}
	return a, true, nil
}

var errOtherRequest = errors.New("this key was already used with another request")

func oldComplete(ctx context.Context, tx pgx.Tx, account, key string, a oldAnswer) error {
	_, err := tx.Exec(ctx, "update idempotency_key set status = $3, answer = $4 where account = $1 and key = $2", account, key, a.Status, a.Body)
	return err
}

// refund is the work of the service, before and after the change.
func refund(ctx context.Context, tx pgx.Tx, body []byte) (a oldAnswer, err error) {
	var f struct {
		ID     int64  `json:"id"`
		Charge string `json:"charge"`
		Amount int64  `json:"amount"`
	}
	if err := json.Unmarshal(body, &f); err != nil || f.Amount <= 0 {
		return oldAnswer{http.StatusBadRequest, []byte(`{"error":"the body is not a refund"}`)}, nil //nolint:nilerr // an answer
	}
	if err := tx.QueryRow(ctx, "insert into refund (charge, amount) values ($1, $2) returning id", f.Charge, f.Amount).Scan(&f.ID); err != nil {
		return a, err
	}
	a.Status = http.StatusCreated
	a.Body, err = json.Marshal(f)
	return a, err
}
