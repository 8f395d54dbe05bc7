package pgxstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestAServerWithoutClaimsIsRefused: a server that accepts advisory locks and does nothing, as
// CockroachDB. Nothing runs there, whatever is asked first.
func TestAServerWithoutClaimsIsRefused(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	if _, err := pool.Exec(t.Context(), testenv.WithoutAdvisoryLocks); err != nil {
		t.Fatal(err)
	}
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = testenv.WithoutAdvisoryLocksPath
	lying, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lying.Close)
	handler := func(context.Context, pgx.Tx) (int, error) {
		t.Error("a handler runs")
		return 1, nil
	}
	op := func() once.Operation { return once.Operation{Scope: "s", Key: once.NewKey()} }
	for name, ask := range map[string]func(context.Context, *pgxstore.Store) error{
		"Migrate": func(ctx context.Context, _ *pgxstore.Store) error { return pgxstore.Migrate(ctx, lying) },
		"Do": func(ctx context.Context, s *pgxstore.Store) error {
			_, err := once.Do(ctx, once.New(s, once.Config{}), op(), handler)
			return err
		},
		"a first attempt": func(ctx context.Context, s *pgxstore.Store) error {
			first := op()
			first.Attempt.Number = 1
			_, err := once.Do(ctx, once.New(s, once.Config{}), first, handler)
			return err
		},
		"DoBatch": func(ctx context.Context, s *pgxstore.Store) error {
			_, err := once.DoBatch(ctx, once.New(s, once.Config{}), op(), func(b *once.Batch) (int, error) {
				b.Exec("insert into charge values ('batch', 1)")
				return 1, nil
			})
			return err
		},
		"Join": func(ctx context.Context, s *pgxstore.Store) error {
			return pgx.BeginFunc(ctx, lying, func(tx pgx.Tx) error {
				_, err := once.Join(ctx, once.New(s, once.Config{}), tx, op(), handler)
				return err
			})
		},
		"Swap": func(ctx context.Context, s *pgxstore.Store) error {
			_, err := s.Swap(ctx, store.Change{ID: store.ID{Scope: "s", Key: once.NewKey()}, Next: store.Record{State: store.StateDone, Nonce: make([]byte, 16)}})
			return err
		},
	} {
		s := pgxstore.New(lying, pgxstore.Config{})
		for range 2 {
			err := ask(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), "Try: PostgreSQL itself") || store.KindOf(err) != store.KindMisused {
				t.Errorf("%s: %v", name, err)
			}
			if _, from := err.(*once.Error); from && (once.CodeOf(err) != once.CodeMisuse || once.EffectOf(err) != once.EffectNotApplied) { //nolint:errorlint // of once.Do itself
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges", n)
	}
}

// TestTheProbeIsSentOnce: no operation but the first pays for it.
func TestTheProbeIsSentOnce(t *testing.T) {
	t.Parallel()
	probes := probeCounter{}
	pool := openPool(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.Tracer = probes
	})
	clear(probes) // that of Migrate
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for range 3 {
		if _, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, insertCharge(once.NewKey())); err != nil {
			t.Fatal(err)
		}
	}
	if len(probes) != 1 {
		t.Errorf("%d probes: %v", len(probes), probes)
	}
}

// probeCounter has the texts of probes.
type probeCounter map[string]bool

func (p probeCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "pg_locks") {
		p[data.SQL] = true
	}
	return ctx
}

func (probeCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
