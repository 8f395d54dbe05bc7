package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The table is made by the benchmark, with the columns and the index of once's own.
const (
	insertRunning = `insert into two_commit_key (scope, key, state, claim, fingerprint, expires_at)
 values ($1, $2, 1, $3, $4, now() + interval '72 hours') on conflict do nothing`
	updateDone = `update two_commit_key set state = 2, status = $3, body = $4 where scope = $1 and key = $2`
	lookUp     = `select state, fingerprint, status, body from two_commit_key where scope = $1 and key = $2 and expires_at > now()`

	scope = "bench POST /charges"
)

// protect is the middleware: a commit for the key, the commits of next, a commit for the answer.
func protect(pool *pgxpool.Pool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r, pool, next); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

func serve(w http.ResponseWriter, r *http.Request, pool *pgxpool.Pool, next http.Handler) error {
	ctx, key := r.Context(), r.Header.Get("Idempotency-Key")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	fingerprint := sha256.Sum256(append([]byte(r.Method+" "+r.URL.Path+"\n"), body...))
	claim := make([]byte, 16)
	rand.Read(claim)
	tag, err := pool.Exec(ctx, insertRunning, scope, key, claim, fingerprint[:])
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return replay(ctx, w, pool, key, fingerprint[:])
	}
	a := &recorder{header: w.Header(), status: http.StatusOK}
	next.ServeHTTP(a, r)
	if tag, err = pool.Exec(ctx, updateDone, scope, key, a.status, a.body.Bytes()); err != nil {
		return err
	} else if tag.RowsAffected() != 1 {
		return errors.New("the key is gone")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
	return nil
}

// replay answers a retry.
func replay(ctx context.Context, w http.ResponseWriter, pool *pgxpool.Pool, key string, fingerprint []byte) error {
	var state, status int
	var first, body []byte
	rows, err := pool.Query(ctx, lookUp, scope, key)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&state, &first, &status, &body}, func() error { return nil })
	switch {
	case err != nil:
		return err
	case !bytes.Equal(first, fingerprint):
		http.Error(w, "the key was used for another request", http.StatusUnprocessableEntity)
	case state != 2:
		http.Error(w, "the first request is in flight, or its process has died", http.StatusConflict)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
	return nil
}

// recorder keeps an answer until it is stored.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *recorder) Header() http.Header         { return a.header }
func (a *recorder) WriteHeader(status int)      { a.status = status }
func (a *recorder) Write(p []byte) (int, error) { return a.body.Write(p) }
