package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// hang only ends a test whose call waits without end.
const hang = 90 * time.Second

// silentStores are stores whose server hears everything and answers nothing when it is told so.
var silentStores = map[string]func(*testing.T) (*sqlstore.Store, *faultnet.Proxy){
	"PostgreSQL": func(t *testing.T) (*sqlstore.Store, *faultnet.Proxy) {
		proxy := proxyTo(t, testenv.SharedPostgres(t).Addr())
		cfg, err := pgx.ParseConfig(testenv.NewDatabase(t))
		if err != nil {
			t.Fatal(err)
		}
		cfg.DialFunc = proxy.DialContext
		db := sqlstore.OpenDB(sqlplane.PostgreSQL, stdlib.GetConnector(*cfg))
		t.Cleanup(func() { _ = db.Close() })
		if err := sqlstore.Migrate(t.Context(), db, attemptlog.Migrations); err != nil {
			t.Fatal(err)
		}
		run(t, db, "create table effect (name text not null)")
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return s, proxy
	},
	"MariaDB": onMariaDB.silent,
	"MySQL":   onMySQL.silent,
}

func (on innodb) silent(t *testing.T) (*sqlstore.Store, *faultnet.Proxy) {
	t.Helper()
	proxy := proxyTo(t, on.server(t).Addr())
	_, s := on.open(t, "", proxy)
	return s, proxy
}

func proxyTo(t *testing.T, addr string) *faultnet.Proxy {
	t.Helper()
	proxy, err := faultnet.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// ends returns the error of a call that must end although its server is silent.
func ends(t *testing.T, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(hang):
		t.Fatal("it waits without end")
		return nil
	}
}

// inHandler does an operation whose handler has the server fall silent, and returns its error. On a slow machine the
// server may take longer to begin than it may, and then the handler has not run.
func inHandler(t *testing.T, e *once.Engine[*sql.Tx], handler func(ctx context.Context, tx *sql.Tx) (*faultnet.Trigger, error)) (trigger *faultnet.Trigger, err error) {
	t.Helper()
	for tries := 0; trigger == nil; tries++ {
		if tries == 10 {
			t.Fatalf("vacuous: the handler has not run: %v", err)
		}
		err = ends(t, func() error {
			_, err := once.Do(context.Background(), e, once.Operation{Scope: "s", Key: fmt.Sprint(tries)}, func(ctx context.Context, tx *sql.Tx) (n int, err error) {
				trigger, err = handler(ctx, tx)
				return 1, err
			})
			return err
		})
	}
	return trigger, err
}

// TestASilentServer: an operation whose server answers nothing ends by its Timeouts, without a
// deadline of its caller.
func TestASilentServer(t *testing.T) {
	testenv.Prove(t)
	retried := once.Operation{Scope: "s", Key: "k", Attempt: once.Attempt{Number: 2}}
	for name, open := range silentStores {
		for asked, op := range map[string]once.Operation{"begin": {Scope: "s", Key: "k"}, "first": {Scope: "s", Key: "k", Attempt: once.Attempt{Number: 1}}, "look-up": retried} {
			t.Run(name+"/"+asked, func(t *testing.T) {
				t.Parallel()
				s, proxy := open(t)
				e := once.New(s, once.Config{Timeouts: store.Timeouts{Acquire: 2 * time.Second, Lock: time.Second}})
				do := func(op once.Operation) error {
					_, err := once.Do(context.Background(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, effect(ctx, tx, op.Key) })
					return err
				}
				trigger := proxy.Arm(faultnet.Withhold(""))
				err := ends(t, func() error { return do(op) })
				if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "Try: ") {
					t.Error(err)
				}
				if trigger.Count() == 0 {
					t.Error("vacuous: the server was asked for nothing")
				}
				proxy.Disarm()
				proxy.CutAll() // logins that were not answered
				again := retried
				again.Timeouts.Acquire = hang / 4
				again.Wait = hang / 4 // until the server has seen the ends of the connections
				if err := ends(t, func() error { return do(again) }); err != nil {
					t.Errorf("when the server answers again: %v", err)
				}
			})
		}
	}
}

// TestAServerThatFallsSilent: however an operation goes on when its server has fallen silent
// inside of the handler, it ends. So do the sweeper and the log of attempts, by their own time.
func TestAServerThatFallsSilent(t *testing.T) {
	testenv.Prove(t)
	errHandler := errors.New("handler")
	for name, open := range silentStores {
		for what, returned := range map[string]error{"commit": nil, "rollback": errHandler, "failure": &once.Failure{Code: "no"}} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				s, proxy := open(t)
				e := once.New(s, once.Config{Settle: time.Second, Timeouts: store.Timeouts{Acquire: 2 * time.Second}})
				trigger, err := inHandler(t, e, func(ctx context.Context, tx *sql.Tx) (*faultnet.Trigger, error) {
					err := effect(ctx, tx, "k")
					return proxy.Arm(faultnet.Withhold("")), errors.Join(err, returned)
				})
				if err == nil || trigger.Count() == 0 {
					t.Errorf("%v; asked %d times", err, trigger.Count())
				}
				if what != "rollback" && once.EffectOf(err) == once.EffectApplied {
					t.Errorf("that cannot be known: %v", err)
				}
			})
		}
		t.Run(name+"/statement", func(t *testing.T) {
			t.Parallel()
			s, proxy := open(t)
			e := once.New(s, once.Config{Timeouts: store.Timeouts{Acquire: 2 * time.Second, Statement: time.Second}})
			trigger, err := inHandler(t, e, func(ctx context.Context, tx *sql.Tx) (*faultnet.Trigger, error) {
				return proxy.Arm(faultnet.Withhold("")), effect(ctx, tx, "k")
			})
			if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || trigger.Count() == 0 {
				t.Errorf("%v; asked %d times", err, trigger.Count())
			}
		})
		for what, call := range map[string]func(context.Context, *sqlstore.Store) error{
			"sweep": func(ctx context.Context, s *sqlstore.Store) error {
				_, err := s.Sweep(ctx, upkeep.Sweep{Limit: 10})
				return err
			},
			"write attempts": func(ctx context.Context, s *sqlstore.Store) error {
				list := slices.Repeat([]attempts.Attempt{{KeyHash: "k", Scope: "s", Ended: time.Now()}}, 100) // more than one statement takes
				return attempts.New(s).Write(ctx, list)
			},
			"sweep attempts": func(ctx context.Context, s *sqlstore.Store) error {
				_, err := attempts.New(s).Sweep(ctx, time.Hour, 10)
				return err
			},
		} {
			for _, pattern := range []string{"", "insert into once_attempt", "COMMIT"} {
				t.Run(name+"/"+what+"/"+pattern, func(t *testing.T) {
					t.Parallel()
					s, proxy := open(t)
					trigger := proxy.Arm(faultnet.Withhold(pattern))
					var err error
					for limit := time.Second; limit < time.Minute; limit *= 4 { // a machine may be slow without a fault
						err = ends(t, func() error {
							ctx, cancel := context.WithTimeout(context.Background(), limit)
							defer cancel()
							return call(ctx, s)
						})
						if err == nil || trigger.Count() > 0 {
							break
						}
					}
					if (err == nil) != (trigger.Count() == 0) {
						t.Errorf("%v; asked %d times", err, trigger.Count())
					}
					if pattern == "" && err == nil {
						t.Error("vacuous: the server was asked for nothing")
					}
				})
			}
		}
	}
}
