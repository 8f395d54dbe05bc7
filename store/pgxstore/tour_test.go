package pgxstore_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/pgxstore"
)

type Mail struct{ To int }

// welcome is that of docs/tour.md.
func welcome(ctx context.Context, engine *once.Engine[pgx.Tx]) (once.Result[Mail], error) {
	op := once.Operation{
		Scope:  "acme mail",
		Key:    once.DeriveKey("welcome-email", "42"),
		Retain: once.Forever, // without Retain, the mail could be sent again after 72 hours
	}

	mail, err := once.Do(ctx, engine, op, func(ctx context.Context, tx pgx.Tx) (Mail, error) {
		return queueWelcomeMail(ctx, tx, 42)
	})
	return mail, err
}

func queueWelcomeMail(ctx context.Context, tx pgx.Tx, customer int) (Mail, error) {
	_, err := tx.Exec(ctx, "insert into welcome (customer) values ($1)", customer)
	return Mail{To: customer}, err
}

// client sends each intent under one key, and again after its process was killed.
func client(ctx context.Context, dir string) (journal.Resumed, error) {
	intents, err := journal.Open(dir, journal.Config{})
	if err != nil {
		return journal.Resumed{}, err
	}
	client := &http.Client{Transport: &retryhttp.Transport{Journal: intents}}
	resumed, err := journal.Resume(ctx, intents, client, journal.Options{}) // when it starts
	return resumed, err
}

// operated has an attempt log, a limiter and a sweeper.
//
//nolint:errcheck // a sweeper that ends says what the context says
func operated(ctx context.Context, pool *pgxpool.Pool, mux *http.ServeMux) (*attemptlog.Log, error) {
	s := pgxstore.New(pool, pgxstore.Config{})
	err := pgxstore.Migrate(ctx, pool, attemptlog.Migrations) // its table, too
	attempts := attemptlog.New(s, attemptlog.Config{})        // s is the store
	engine := once.New(s, once.Config{Observer: once.Observers(once.Log(slog.Default()), attempts)})
	// on the way out: attempts.Close(ctx)

	limiter := limit.New(limit.Config{Limit: 20, Tenant: tenant})
	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: tenant, Gate: limiter})
	mux.Handle("POST /refunds", idempotent(http.HandlerFunc(createRefund)))

	sweeper := retention.New(s, retention.Config{})
	go sweeper.Run(ctx) // on any number of nodes; or: once sweep --db URL --archive DIR
	return attempts, err
}

// TestTourCodeWorks: what the tour shows compiles and works; a second welcome is a replay of the first.
func TestTourCodeWorks(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	pool := openPool(t)
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "create table welcome (customer int not null)"); err != nil {
		t.Fatal(err)
	}
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for i := range 2 {
		if mail, err := welcome(ctx, engine); err != nil || mail.Value.To != 42 || mail.Replayed != (i == 1) {
			t.Errorf("%+v %v", mail, err)
		}
	}
	if n := count(t, pool, "select count(*) from welcome"); n != 1 {
		t.Errorf("%d mails", n)
	}
	if resumed, err := client(ctx, filepath.Join(t.TempDir(), "intents")); err != nil || resumed.Left != 0 {
		t.Errorf("%+v %v", resumed, err)
	}
	attempts, err := operated(ctx, pool, http.NewServeMux())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := attempts.Close(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
}
