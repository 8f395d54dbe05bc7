package oncehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// shipping is a service that forgets what it is about, now and then.
type shipping struct {
	store  *memstore.Store
	failed bool
}

// ship serves the route, for a client and without one.
func (s *shipping) ship(w http.ResponseWriter, r *http.Request, run *lease.Run) {
	who, _ := oncehttp.Principal(r.Context()) // also when it is resumed
	parcel, err := lease.InTx(r.Context(), run, s.store, "pack", func(_ context.Context, tx *memstore.Tx) (string, error) {
		what, err := io.ReadAll(r.Body)
		return string(what), errors.Join(err, tx.Put("order "+r.PathValue("id"), "packed"))
	})
	if s.failed = !s.failed; err != nil || s.failed {
		oncehttp.Fail(w, r, errors.Join(errors.New("the power is gone"), err))
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s for %s is on its way", parcel, who)
}

// What stops is ended without its client, who then gets the answer.
func ExampleResume() {
	ctx, cancel := context.WithCancel(context.Background())
	s := &shipping{store: memstore.New()}
	encrypter, _ := once.NewEncrypter([]byte("a secret of thirty-two bytes ..."))
	leases := lease.New(s.store, lease.Config{})
	engine := once.New(leases, once.Config{Encrypter: encrypter, Observer: once.Discard})
	cfg := oncehttp.Config{CaptureRequest: true, Principal: func(r *http.Request) string { return r.Header.Get("Authorization") }}

	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/parcels", oncehttp.Handler(engine, cfg, s.ship))

	resume := oncehttp.Resume(engine, cfg, s.ship)
	ended := make(chan error)
	completer := lease.Completer{
		Store: leases, Encrypter: encrypter, Log: slog.New(slog.DiscardHandler),
		Handlers: lease.Handlers{"POST /orders/{id}/parcels": func(ctx context.Context, op once.Operation) error {
			err := resume(ctx, op)
			ended <- err
			return err
		}},
	}

	ask := func() {
		r := httptest.NewRequest(http.MethodPost, "/orders/7/parcels", strings.NewReader("a book"))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Authorization", "acme")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("%d %s %.30s\n", w.Code, w.Header().Get("Idempotency-Status"), w.Body)
	}
	ask()
	over := make(chan error)
	go func() { over <- completer.Run(ctx) }()
	fmt.Println("resumed:", <-ended)
	cancel()
	<-over
	ask()
	// Output:
	// 500  {"type":"https://oncelib.dev/p
	// resumed: <nil>
	// 201 replayed a book for acme is on its way
}
