// Command lease makes refunds at a payment provider, with net/http, on PostgreSQL through pgx. A request that is
// sent again with the same Idempotency-Key takes effect once, also if this process dies during the call of the
// provider: then a Completer of another process, or of the next one, continues the refund.
//
//	DATABASE_URL=postgres://... PROVIDER_URL=https://... ENCRYPTION_KEY=$(openssl rand -hex 32) go run . &
//	curl -i localhost:8080/refunds -H 'X-Tenant: acme' -H 'Idempotency-Key: k1' -d '{"charge":"ch_1","amount":1000}'
//	once relay --db "$DATABASE_URL" --to https://ledger.example/events/{topic}
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("the service has ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := prepare(ctx, pool); err != nil {
		return err
	}
	secret, err := hex.DecodeString(os.Getenv("ENCRYPTION_KEY"))
	if err != nil {
		return err
	}
	encrypter, err := once.NewEncrypter(secret) // the stored requests and answers are encrypted
	if err != nil {
		return err
	}
	pg := pgxstore.New(pool, pgxstore.Config{})
	s := &service{store: pg, box: outbox.New(pg, outbox.Config{Source: "/refunds"}), provider: os.Getenv("PROVIDER_URL"), client: newClient(nil)}
	leases := lease.New(pg, lease.Config{})
	engine := once.New(leases, once.Config{Encrypter: encrypter})

	// The Completer continues refunds whose process has died. Each process of the service runs one.
	completer := lease.Completer{Store: leases, Encrypter: encrypter, Handlers: lease.Handlers{
		"POST /refunds": oncehttp.Resume(engine, config, s.refund),
	}}
	go func() {
		slog.Error("the completer has ended", "error", completer.Run(ctx))
	}()
	server := http.Server{Addr: cmp.Or(os.Getenv("ADDR"), "localhost:8080"), Handler: s.handler(engine), ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// prepare makes the tables of once and of the outbox, and the table of refunds.
func prepare(ctx context.Context, pool *pgxpool.Pool) error {
	if err := pgxstore.Migrate(ctx, pool, outbox.Migrations); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "create table if not exists refund (id bigserial primary key, charge text not null, amount bigint not null, provider text)")
	return err
}

// newClient returns a client for the calls of the provider. An attempt that hangs ends after 2 seconds, so that a retry fits into the request.
func newClient(base http.RoundTripper) *http.Client {
	return retryhttp.NewClient(&retryhttp.Transport{Base: base, Policy: retry.Policy{Timeout: 2 * time.Second}})
}

// config is the configuration of the route, for its handler and for the Completer.
var config = oncehttp.Config{
	Principal:      func(r *http.Request) string { return r.Header.Get("X-Tenant") }, // your authentication sets it
	CaptureRequest: true,                                                             // for the Completer
	Wait:           5 * time.Second,                                                  // a duplicate waits so long for the first request
}

type service struct {
	store    store.Store[pgx.Tx]
	box      *outbox.Box[pgx.Tx]
	provider string
	client   *http.Client
}

func (s *service) handler(engine *once.Engine[*lease.Run]) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", oncehttp.Handler(engine, config, s.refund))
	return mux
}

type refund struct {
	ID       int64  `json:"id"`
	Charge   string `json:"charge"`
	Amount   int64  `json:"amount"`
	Provider string `json:"provider"`
}

// refund is the handler of the route. What it writes is stored, and a retry gets the same response.
func (s *service) refund(w http.ResponseWriter, r *http.Request, run *lease.Run) {
	var asked refund
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Charge == "" || asked.Amount <= 0 {
		http.Error(w, "the charge or the amount is missing", http.StatusBadRequest)
		return
	}
	made, err := s.work(r.Context(), run, asked)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	body, err := json.Marshal(made)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

// work makes a refund in three phases. If the process dies, the next run continues after the last phase that has committed.
func (s *service) work(ctx context.Context, run *lease.Run, f refund) (refund, error) {
	f, err := lease.InTx(ctx, run, s.store, "create", func(ctx context.Context, tx pgx.Tx) (refund, error) {
		created := f // a copy, because a phase may run again after a conflict
		err := tx.QueryRow(ctx, "insert into refund (charge, amount) values ($1, $2) returning id", f.Charge, f.Amount).Scan(&created.ID)
		return created, err
	})
	if err != nil {
		return f, err
	}
	// The provider removes duplicates by the key for a day, so the call can be repeated under the same key.
	id, err := lease.Call(ctx, run, "pay", func(ctx context.Context, key string) (string, error) {
		return s.pay(ctx, key, f)
	}, lease.CallPolicy{DedupedFor: 24 * time.Hour})
	if err != nil {
		return f, err
	}
	return lease.InTx(ctx, run, s.store, "finish", func(ctx context.Context, tx pgx.Tx) (refund, error) {
		paid := f
		paid.Provider = id
		if _, err := tx.Exec(ctx, "update refund set provider = $2 where id = $1", paid.ID, paid.Provider); err != nil {
			return paid, err
		}
		body, err := json.Marshal(paid)
		if err != nil {
			return paid, err
		}
		return paid, s.box.Add(ctx, tx, message.Message{Topic: "refunds", Key: paid.Charge, Type: "refund.created", Payload: body})
	})
}

// pay calls the provider. A refusal is a once.Failure, which is stored. Any other error leaves the outcome open, and the call is repeated.
func (s *service) pay(ctx context.Context, key string, f refund) (id string, err error) {
	body, err := json.Marshal(map[string]any{"charge": f.Charge, "amount": f.Amount})
	if err != nil {
		return "", lease.NotSent(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.provider+"/v1/refunds", bytes.NewReader(body))
	if err != nil {
		return "", lease.NotSent(err)
	}
	r.Header.Set("Idempotency-Key", key)
	answer, err := s.client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusCreated:
		var made struct {
			ID string `json:"id"`
		}
		err := json.NewDecoder(answer.Body).Decode(&made)
		return made.ID, err
	case http.StatusPaymentRequired:
		return "", &once.Failure{Code: "REFUND.declined", Message: "The provider has declined this refund."}
	}
	return "", fmt.Errorf("the provider answers %s", answer.Status)
}
