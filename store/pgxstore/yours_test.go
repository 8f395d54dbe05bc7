package pgxstore_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/storetest"
)

// TestYourServer is the suite on the server of ONCE_POSTGRES_URL, in schemas of its own: docs/own-server.md. Without it, the server
// is one of the tests.
func TestYourServer(t *testing.T) {
	testenv.Prove(t)
	url := os.Getenv("ONCE_POSTGRES_URL")
	if url == "" {
		url = testenv.NewDatabase(t)
	}
	open := func(tb testing.TB) *pgxpool.Pool { tb.Helper(); return inSchema(tb, url) }
	h := harnessOn(open)
	h.Brief = true
	txn, _, err := pgxstore.New(open(t), pgxstore.Config{}).Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: once.NewKey()}})
	if err != nil {
		t.Fatal(err)
	}
	claimer, ok := store.As[store.CommitClaimer](txn)
	h.ClaimsByCommit = ok && claimer.ClaimsByCommit()
	if err := txn.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the server keeps advisory locks: %t", !h.ClaimsByCommit)
	storetest.Run(t, h)
}

// inSchema returns a pool on a new schema of the database of url, which ends with the test.
func inSchema(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	ctx, schema := context.Background(), "once_test_"+once.NewKey()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "create schema "+pgx.Identifier{schema}.Sanitize()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			_, err = conn.Exec(ctx, "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
			_ = conn.Close(ctx)
		}
		if err != nil {
			tb.Error(err)
		}
	})
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = schema
	cfg.MaxConns = 16
	return migrated(tb, cfg)
}
