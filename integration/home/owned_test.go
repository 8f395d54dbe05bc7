package home

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestOwningRegionExecutes: in whatever way an operation is executed, it takes effect in the region that owns its tenant, and is refused in all others without an effect and
// without a record. The refusal tells where the tenant lives, and the map of the region has learned it.
func TestOwningRegionExecutes(t *testing.T) {
	testenv.Both(t)
	on(t, owned[pgx.Tx], owned[*sql.Tx])
}

func owned[TX any](t *testing.T, s system[TX]) {
	const tenant = "acme"
	ways := map[string]func(r *region[TX], op once.Operation) error{
		"Do": func(r *region[TX], op once.Operation) error { _, err := r.pay(t.Context(), tenant, op.Key); return err },
		"a first attempt": func(r *region[TX], op once.Operation) error {
			op.Attempt.Number = 1
			_, err := once.Do(t.Context(), r.engine, op, func(ctx context.Context, tx TX) (string, error) { return "", r.write(ctx, tx, tenant, op.Key) })
			return err
		},
		"DoBatch": func(r *region[TX], op once.Operation) error {
			_, err := once.DoBatch(t.Context(), r.engine, op, func(b *once.Batch) (string, error) {
				b.Add(harness.Text(r.db, "insert into effect (tenant, what) values (?, ?)", tenant, op.Key))
				b.Add(harness.Text(r.db, "insert into account (tenant, n) values (?, 1) UPSERT(tenant) n = account.n + 1", tenant))
				return "", nil
			})
			return err
		},
		"a final failure that is stored": func(r *region[TX], op once.Operation) error {
			_, err := once.Do(t.Context(), r.engine, op, func(ctx context.Context, tx TX) (string, error) {
				return "", errors.Join(r.write(ctx, tx, tenant, op.Key), &once.Failure{Code: "accepted", CommitWrites: true})
			})
			if errors.As(err, new(*once.Failure)) {
				return nil
			}
			return err
		},
		"Join": func(r *region[TX], op once.Operation) error {
			txn, _, err := r.db.Begin(t.Context(), store.BeginOptions{})
			must(t, err)
			_, err = once.Join(t.Context(), r.engine, txn.Tx(), op, func(ctx context.Context, tx TX) (string, error) { return "", r.write(ctx, tx, tenant, op.Key) })
			if err != nil {
				return errors.Join(err, txn.Rollback(t.Context()))
			}
			return txn.Commit(t.Context(), store.Change{})
		},
		"a lease": func(r *region[TX], op once.Operation) error {
			e := once.New(lease.New(r.owned, lease.Config{}), once.Config{Observer: once.Discard})
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, run *lease.Run) (string, error) {
				return lease.InTx(ctx, run, r.owned, "write", func(ctx context.Context, tx TX) (string, error) { return "", r.write(ctx, tx, tenant, op.Key) })
			})
			return err
		},
		"without a key": func(r *region[TX], op once.Operation) error {
			txn, _, err := r.db.Begin(t.Context(), store.BeginOptions{})
			must(t, err)
			if err := errors.Join(r.write(t.Context(), txn.Tx(), tenant, op.Key), r.owned.Require(t.Context(), txn.Tx(), tenant)); err != nil {
				return errors.Join(err, txn.Rollback(t.Context()))
			}
			return txn.Commit(t.Context(), store.Change{})
		},
	}
	for _, r := range s {
		if _, err := r.pay(t.Context(), tenant, "too early"); !isRefused(err) {
			t.Errorf("in %s, before the tenant has a home: %v", r.name, err)
		}
	}
	must(t, home.Mover{Regions: s.mover(nil).Regions}.Move(t.Context(), tenant, "eu"))
	var keys []string
	for way, do := range ways {
		for _, r := range []*region[TX]{s["us"], s["eu"], s["ap"]} {
			op := once.Operation{Scope: tenant + " POST /pay", Key: way + " in " + r.name}
			err := do(r, op)
			switch effects := s.effects(t, tenant)[op.Key]; {
			case r.name == "eu":
				if err != nil || effects != 1 {
					t.Errorf("%s: %v, %d effects", op.Key, err, effects)
				}
				keys = append(keys, op.Key)
			case err == nil || way != "without a key" && way != "a lease" && !isRefused(err) || effects != 0:
				t.Errorf("%s: %v, %d effects", op.Key, err, effects)
			}
			if rec, err := r.db.Read(t.Context(), store.ID{Scope: op.Scope, Key: op.Key}); way != "without a key" && (err != nil || (rec.State == store.StateDone) != (r.name == "eu")) {
				t.Errorf("%s: %v %v", op.Key, rec.State, err)
			}
		}
	}
	for _, r := range s {
		c := store.Change{ID: store.ID{Scope: tenant + "/x", Key: "swap"}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: make([]byte, 16)}, Lease: time.Minute}
		_, err := r.owned.Swap(t.Context(), c)
		txn, _, failed := r.db.Begin(t.Context(), store.BeginOptions{})
		must(t, failed)
		c.ID.Key = "write"
		_, inTx := r.owned.Write(t.Context(), txn.Tx(), c)
		must(t, txn.Rollback(t.Context()))
		for _, err := range []error{err, inTx} {
			if r.name == "eu" && err != nil || r.name != "eu" && !errors.As(err, new(*home.NotHomeError)) {
				t.Errorf("a change in %s: %v, and in a transaction: %v", r.name, err, inTx)
			}
		}
	}
	must(t, home.Mover{Regions: s.mover(nil).Regions}.Move(t.Context(), tenant, "us"))
	if p := s["eu"].known.Home(tenant); p.Epoch > 1 {
		t.Errorf("the map knows %v: the test shows nothing", p)
	}
	if _, err := s["eu"].pay(t.Context(), tenant, "late"); !isRefused(err) || !strings.Contains(err.Error(), "belongs to the region us") || s["eu"].known.Home(tenant).Region != "us" {
		t.Errorf("%v; the map says %v", err, s["eu"].known.Home(tenant))
	}
	for _, key := range keys {
		if key == "without a key in eu" {
			continue
		}
		if n := harness.Count(t, s["us"].db, "select count(*) from once_operation where KEY = ? and state = 2", key); n != 1 {
			t.Errorf("%s has not gone along", key)
		}
	}
	if n := harness.Count(t, s["eu"].db, "select count(*) from once_operation where scope like 'acme%'"); n != 0 {
		t.Errorf("%d operations were left behind", n)
	}
}

// TestOwnTrips: that the tenant is owned is checked without a round trip, in each form of an operation.
func TestOwnTrips(t *testing.T) {
	var wire faultnet.Wire
	d := harness.Migrated(t, harness.Pgx, sets, effects, accounts)
	db, _ := harness.OpenPgx(t, d, func(cfg *pgxpool.Config) {
		cfg.MaxConns, cfg.ConnConfig.DialFunc = 1, wire.DialContext
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a slow machine makes a connection look idle
	})
	must(t, home.Mover{Regions: map[string]sqlplane.Database{"eu": db}}.Move(t.Context(), "acme", "eu"))
	trips := map[string][2]int64{}
	for i, s := range []store.Store[pgx.Tx]{db, home.New(db, home.NewMap("eu"))} {
		e := once.New(s, once.Config{Observer: once.Discard})
		for name, do := range map[string]func(op once.Operation) error{
			"first": func(op once.Operation) error {
				op.Attempt.Number = 1
				_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx pgx.Tx) (string, error) {
					_, err := tx.Exec(ctx, "insert into effect (tenant, what) values ('acme', 'x')")
					return "", err
				})
				return err
			},
			"look-up": func(op once.Operation) error {
				_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx pgx.Tx) (string, error) {
					_, err := tx.Exec(ctx, "insert into effect (tenant, what) values ('acme', 'x')")
					return "", err
				})
				return err
			},
			"batch": func(op once.Operation) error {
				_, err := once.DoBatch(t.Context(), e, op, func(b *once.Batch) (string, error) {
					b.Exec("insert into effect (tenant, what) values ('acme', 'x')")
					return "", nil
				})
				return err
			},
		} {
			for range 4 { // the first times prepare statements
				before := wire.Counts().RoundTrips
				must(t, do(once.Operation{Scope: "acme POST /pay", Key: once.NewKey()}))
				was := trips[name]
				was[i] = wire.Counts().RoundTrips - before
				trips[name] = was
			}
		}
	}
	for name, n := range trips {
		if n[0] != n[1] || n[0] == 0 {
			t.Errorf("%s: %d round trips without, %d with the check", name, n[0], n[1])
		}
	}
}

// TestLeaseMoves: work under a lease goes along with its tenant. Its holder at the old home can write nothing more, and the new home goes on with it behind
// the phase that was committed.
func TestLeaseMoves(t *testing.T) {
	testenv.Both(t)
	on(t, leaseMoves[pgx.Tx], leaseMoves[*sql.Tx])
}

func leaseMoves[TX any](t *testing.T, s system[TX]) {
	const tenant = "acme"
	must(t, s.mover(nil).Move(t.Context(), tenant, "eu"))
	op := once.Operation{Scope: tenant + "/work", Key: "k"}
	ttl := lease.Config{TTL: 200 * time.Millisecond}
	do := func(r *region[TX], between func()) (once.Result[string], error) {
		e := once.New(lease.New(r.owned, ttl), once.Config{Observer: once.Discard})
		return once.Do(t.Context(), e, op, func(ctx context.Context, run *lease.Run) (string, error) {
			phase := func(name string) error {
				_, err := lease.InTx(ctx, run, r.owned, name, func(ctx context.Context, tx TX) (string, error) { return "", r.write(ctx, tx, tenant, name) })
				return err
			}
			if err := phase("one"); err != nil {
				return "", err
			}
			between()
			return r.name, phase("two")
		})
	}
	for moved := false; !moved; { // until the holder keeps its lease for so long
		if _, err := do(s["eu"], func() { must(t, s.mover(nil).Move(t.Context(), tenant, "us")); moved = true }); err == nil {
			t.Fatal("the holder at the old home has come to its end")
		}
	}
	harness.Until(t, func() error { // its lease ends
		_, err := do(s["us"], func() {})
		return err
	})
	if got := s.effects(t, tenant); got["one"] != 1 || got["two"] != 1 {
		t.Errorf("effects %v, want each phase once", got)
	}
	s.judge(t, tenant, "us")
}
