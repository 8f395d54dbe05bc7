package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
)

const nameBarest = "look-up, forward, answer"

// barest is the least program that does what a gateway with receipts alone does: it looks the receipt up, forwards and answers. It compares no requests, knows no
// callers and no lost answers, and sends headers as they come. What it costs no gateway can do without.
func (f *gatewayField) barest(pool *pgxpool.Pool) (string, error) {
	service := &http.Transport{MaxIdleConnsPerHost: 256}
	return f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		operation := once.DeriveKey("global", r.Header.Get("Idempotency-Key"))
		var status int
		var stored []byte
		switch err := pool.QueryRow(r.Context(), "select status, body from once_receipt where operation = $1", operation).Scan(&status, &stored); {
		case err == nil:
			w.WriteHeader(status)
			_, _ = w.Write(stored)
			return
		case !errors.Is(err, pgx.ErrNoRows):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		to := *r.URL
		to.Scheme, to.Host = f.upstream.Scheme, f.upstream.Host
		out := &http.Request{Method: r.Method, URL: &to, Host: r.Host, Header: r.Header.Clone(), Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
		out.Header.Set("Once-Operation", operation)
		answer, err := service.RoundTrip(out.WithContext(r.Context()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		whole, err := io.ReadAll(answer.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(whole)
	}))
}
