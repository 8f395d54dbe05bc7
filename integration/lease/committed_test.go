package lease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// procedures are what a phase may call.
var procedures = []string{
	"create procedure ends() commit",
	"create procedure goes_on() begin commit; start transaction; end",
	"create procedure does_nothing() begin end",
	"create procedure waits() begin do get_lock(concat(database(), '.gate'), 60); do release_lock(concat(database(), '.gate')); end",
}

var errPhase = errors.New("the phase fails")

// committed is a phase that runs a procedure or dynamic SQL.
type committed struct {
	call string // the procedure, or what runs it
	ends string // how the phase ends: returns, fails, panics
	lost bool   // the connection, behind the procedure
	late bool   // there is a phase before
}

func (c committed) String() string {
	return fmt.Sprintf("%s, %s, lost %v, later phase %v", strings.NewReplacer("'", "", ";", "").Replace(c.call), c.ends, c.lost, c.late)
}

// onInnoDB runs a test on the servers that have such procedures. o is reached through the proxy.
func onInnoDB(t *testing.T, test func(t *testing.T, o opening, to network, heir program)) {
	t.Helper()
	t.Parallel()
	for name, server := range map[string]func(testing.TB) *testenv.MariaDB{harness.MariaDB: testenv.SharedMariaDB, harness.MySQL: testenv.SharedMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newDatabase(t, name)
			heir := program{db: o.mustOpen(t), url: newProvider(t, true).URL, policy: deduped, by: "heir", ttl: long}
			defer heir.db.close()
			for _, text := range procedures {
				_, err := heir.db.Pool().Exec(t.Context(), heir.db.text(text))
				must(t, err)
			}
			address := server(t).Addr()
			proxy, err := faultnet.Listen(address)
			must(t, err)
			t.Cleanup(func() { _ = proxy.Close() })
			o.dial = proxy.DialContext
			test(t, o, network{proxy, address}, heir)
		})
	}
}

// mustOpenSQL opens the store with its own type.
func (o opening) mustOpenSQL(t *testing.T) *sqlstore.Store {
	t.Helper()
	s, db, err := o.openSQL(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return s
}

// TestProcedureThatCommits: a phase runs a procedure that commits by itself, so that its writes may be there without the phase. Whatever
// comes then, its caller is never told that nothing was applied, and neither callers nor a Completer run it again: it is unknown, and the
// record names the phase. A procedure that commits nothing costs nothing of that.
func TestProcedureThatCommits(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, to network, heir program) {
		s, tried := o.mustOpenSQL(t), 0
		for _, call := range []string{"call ends()", "call goes_on()", "prepare p from 'commit'; execute p", "call does_nothing()"} {
			for _, ends := range []string{"returns", "fails", "panics"} {
				for _, lost := range []bool{false, true} {
					for _, late := range []bool{false, true} {
						committed{call, ends, lost, late}.check(t, s, heir, func() { to.CutAll() })
						tried++
					}
				}
			}
		}
		if tried != 48 {
			t.Errorf("%d phases were tried", tried)
		}
	})
}

// TestProcedureAndNoDatabase: after the procedure the database cannot be reached, so that nothing tells what it has committed.
func TestProcedureAndNoDatabase(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, to network, heir program) {
		s := o.mustOpenSQL(t)
		for _, ends := range []string{"returns", "fails"} {
			committed{"call ends()", ends, true, false}.check(t, s, heir, func() {
				to.SetUpstream("127.0.0.1:1") // there is no server
				to.CutAll()
			}, func() { to.SetUpstream(to.address) })
		}
	})
}

// network leads to a server.
type network struct {
	*faultnet.Proxy

	address string
}

// TestKilledBehindAProcedure: the process is killed when its phase has run the procedure, and can tell nothing any more. What the
// procedure has committed stands with a record that is unknown.
func TestKilledBehindAProcedure(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, _ network, heir program) {
		o.dial = nil
		for procedure, unknown := range map[string]bool{"call ends()": true, "call goes_on()": true, "call does_nothing()": false} {
			service := newProvider(t, true)
			p := plan{Opening: o, URL: service.URL, Policy: deduped, Procedure: procedure}.killed(t, procedure)
			if !unknown {
				heir.url = service.URL
				heir.insist(t, p.Key)
				heir.wantDone(t, service, p.Key, p.Key)
				continue
			}
			heir.wantUnknown(t, p.Key, p.Key)
			if rows := heir.rows(t, p.Key); len(rows["reserve"]) != 1 || len(rows["book"]) != 1 {
				t.Errorf("%s: %q", p.Key, rows)
			}
		}
	})
}

// TestPhaseThatCannotBeRolledBack: a phase writes to a table that is not transactional and fails. What it has written stays, so that it is
// unknown like one that has committed.
func TestPhaseThatCannotBeRolledBack(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, _ network, heir program) {
		_, err := heir.db.Pool().Exec(t.Context(), heir.db.text("create table kept (operation varchar(200) not null) engine = MyISAM"))
		must(t, err)
		s := o.mustOpenSQL(t)
		for _, late := range []bool{false, true} {
			key := fmt.Sprint("later phase ", late)
			_, err := once.Do(t.Context(), once.New(lease.New(s, lease.Config{TTL: long}), once.Config{Encrypter: encrypter(), Observer: once.Discard}), operation(key),
				func(ctx context.Context, r *lease.Run) (string, error) {
					if late {
						if _, err := lease.InTx(ctx, r, s, "reserve", func(context.Context, *sql.Tx) (string, error) { return "", nil }); err != nil {
							return "", err
						}
					}
					return lease.InTx(ctx, r, s, "book", func(ctx context.Context, tx *sql.Tx) (string, error) {
						_, err := tx.ExecContext(ctx, "insert into kept values (?)", key)
						return "", errors.Join(err, errPhase)
					})
				})
			if once.CodeOf(err) != once.CodeUnknown || once.EffectOf(err) != once.EffectInDoubt || !errors.Is(err, errPhase) {
				t.Errorf("%s: the caller is told %v", key, err)
			}
			heir.wantUnknown(t, key, key)
		}
	})
}

// TestPhaseThatLeavesASavepoint: a phase calls a procedure that commits nothing, inside a savepoint of its own. That the savepoint could be
// released, or rolled back to, proves that the transaction goes on: the phase succeeds.
func TestPhaseThatLeavesASavepoint(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, _ network, heir program) {
		s := o.mustOpenSQL(t)
		for _, leave := range []string{"rollback to savepoint mine", "release savepoint mine"} {
			for _, late := range []bool{false, true} {
				key := fmt.Sprint(leave, ", later phase ", late)
				_, err := once.Do(t.Context(), once.New(lease.New(s, lease.Config{TTL: long}), once.Config{Encrypter: encrypter(), Observer: once.Discard}), operation(key),
					func(ctx context.Context, r *lease.Run) (string, error) {
						if late {
							if _, err := lease.InTx(ctx, r, s, "reserve", func(context.Context, *sql.Tx) (string, error) { return "", nil }); err != nil {
								return "", err
							}
						}
						return lease.InTx(ctx, r, s, "book", func(ctx context.Context, tx *sql.Tx) (string, error) {
							for _, statement := range []string{"insert into effect values ('" + key + "', 'book', '')", "savepoint mine", "call does_nothing()", leave} {
								if _, err := tx.ExecContext(ctx, statement); err != nil {
									return "", err
								}
							}
							return "booked", nil
						})
					})
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
				if rows := heir.rows(t, key); len(rows["book"]) != 1 {
					t.Errorf("%s: %q", key, rows)
				}
			}
		}
	})
}

// TestLongProcedure: a procedure lasts for longer than the lease. Its transaction has written the record, so that it cannot be renewed:
// other work of its process keeps its leases, callers learn that it is under way, and no other process takes it over.
func TestLongProcedure(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, _ network, heir program) {
		_, db, err := o.openSQL(t.Context())
		must(t, err)
		defer func() { _ = db.Close() }()
		gate, err := db.Conn(t.Context())
		must(t, err)
		defer func() { _ = gate.Close() }()
		_, err = gate.ExecContext(t.Context(), "do get_lock(concat(database(), '.gate'), 60)")
		must(t, err)
		s := o.mustOpenSQL(t)
		e := once.New(lease.New(s, lease.Config{TTL: long}), once.Config{Encrypter: encrypter(), Observer: once.Discard})
		begins, ended := make(chan struct{}, 2), make(chan error, 2)
		over := make(chan struct{})
		do := func(key string, then func(ctx context.Context, r *lease.Run) error) {
			_, err := once.Do(t.Context(), e, operation(key), func(ctx context.Context, r *lease.Run) (string, error) {
				_, err := lease.InTx(ctx, r, s, "reserve", func(context.Context, *sql.Tx) (string, error) { return "", nil })
				begins <- struct{}{}
				return "", errors.Join(err, then(ctx, r))
			})
			ended <- err
		}
		go do("beside", func(ctx context.Context, r *lease.Run) error {
			<-over
			return ctx.Err()
		})
		go do("long", func(ctx context.Context, r *lease.Run) error {
			_, err := lease.InTx(ctx, r, s, "book", func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, "insert into effect values ('long', 'book', '')")
				if err == nil {
					_, err = tx.ExecContext(ctx, "call waits()")
				}
				return "", err
			})
			return err
		})
		<-begins
		<-begins
		harness.Until(t, func() error {
			if rec, err := s.Read(t.Context(), idOf("long")); err != nil || !rec.Idle() {
				return fmt.Errorf("the lease of the long one is not over: %v, %w", rec.State, err)
			}
			return nil
		})
		for range 2 { // two renewals are enough: the lease of the long operation is already over
			heir.db.untilRenewed(t, "beside")
		}
		heir.ran = func() { t.Error("the handler of another process runs") }
		for range 3 {
			if _, err := heir.do(t.Context(), operation("long")); once.CodeOf(err) != once.CodeInFlight {
				t.Errorf("another caller is told %v", err)
			}
		}
		_, err = gate.ExecContext(t.Context(), "do release_lock(concat(database(), '.gate'))")
		must(t, err)
		must(t, <-ended)
		close(over)
		must(t, <-ended)
		if rows := heir.rows(t, "long"); len(rows["book"]) != 1 {
			t.Errorf("%q", rows)
		}
	})
}

// TestProcedureOfALateOwner: an owner whose operation was taken over while its phase runs calls a procedure that would commit. It is
// refused before it runs.
func TestProcedureOfALateOwner(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, _ network, heir program) {
		s := o.mustOpenSQL(t)
		for _, late := range []bool{false, true} {
			key := fmt.Sprint("later phase ", late)
			_, err := once.Do(t.Context(), once.New(lease.New(s, lease.Config{TTL: patience}), once.Config{Observer: once.Discard}), operation(key),
				func(ctx context.Context, r *lease.Run) (string, error) {
					if late {
						if _, err := lease.InTx(ctx, r, s, "reserve", func(context.Context, *sql.Tx) (string, error) { return "", nil }); err != nil {
							return "", err
						}
					}
					return lease.InTx(ctx, r, s, "book", func(ctx context.Context, tx *sql.Tx) (string, error) {
						rec, err := s.Read(ctx, idOf(key))
						must(t, err)
						other := store.Change{ID: idOf(key), Lease: patience, Expect: store.Expect{Fence: rec.Fence}, Next: store.Record{State: store.StateRunning, Fence: rec.Fence + 1, Nonce: []byte("of another owner")}}
						_, err = s.Swap(ctx, other)
						must(t, err)
						_, err = tx.ExecContext(ctx, "insert into effect values (?, 'book', '')", key)
						must(t, err)
						_, err = tx.ExecContext(ctx, "call ends()")
						return "", err
					})
				})
			if once.CodeOf(err) == once.CodeUnknown || err == nil {
				t.Errorf("%s: %v", key, err)
			}
			if rows := heir.rows(t, key); len(rows["book"]) != 0 {
				t.Errorf("%s: %q", key, rows)
			}
			if rec, err := s.Read(t.Context(), idOf(key)); err != nil || string(rec.Nonce) != "of another owner" {
				t.Errorf("%s: the other owner has lost it: %+v, %v", key, rec, err)
			}
		}
	})
}

// check executes an operation with the phase, and looks at what stands and at what is told.
func (c committed) check(t *testing.T, s *sqlstore.Store, heir program, cut func(), after ...func()) {
	t.Helper()
	says := c.String()
	e := once.New(lease.New(s, lease.Config{TTL: long}), once.Config{Encrypter: encrypter(), Observer: once.Discard})
	writes := func(ctx context.Context, r *lease.Run, phase string, then func(*sql.Tx) error) error {
		_, err := lease.InTx(ctx, r, s, phase, func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "insert into effect values (?, ?, '')", says, phase)
			return "", errors.Join(err, then(tx))
		})
		return err
	}
	harmless := c.call == "call does_nothing()"
	runs := 0
	err := panicked(func() error {
		_, err := once.Do(t.Context(), e, operation(says), func(ctx context.Context, r *lease.Run) (string, error) {
			if c.late {
				if err := writes(ctx, r, "reserve", func(*sql.Tx) error { return nil }); err != nil {
					return "", err
				}
			}
			return "", writes(ctx, r, "book", func(tx *sql.Tx) (err error) {
				runs++
				for statement := range strings.SplitSeq(c.call, "; ") {
					if err == nil {
						_, err = tx.ExecContext(ctx, statement)
					}
				}
				if c.lost && runs == 1 {
					cut()
				}
				switch c.ends {
				case "fails":
					err = errors.Join(err, errPhase)
				case "panics":
					panic(errPhase)
				}
				return err
			})
		})
		return err
	})
	for _, f := range after {
		f()
	}
	rows := heir.rows(t, says)
	if late := len(rows["reserve"]) == 1; late != c.late || len(rows["reserve"]) > 1 {
		t.Errorf("%s: the phase before has written %d times", says, len(rows["reserve"]))
	}
	if harmless {
		want := 0
		if c.ends == "returns" {
			want = 1
		}
		if len(rows["book"]) != want || (err == nil) != (want == 1) || heir.state(t, says).String() == "unknown" {
			t.Errorf("%s: %d effects, it is %s, the caller is told %v", says, len(rows["book"]), heir.state(t, says), err)
		}
		return
	}
	if len(rows["book"]) != 1 {
		t.Errorf("%s: %d effects", says, len(rows["book"]))
	}
	if !errors.Is(err, errPhase) || c.ends != "panics" { // a panic goes on to the caller
		if once.EffectOf(err) != once.EffectInDoubt || !c.lost && (once.CodeOf(err) != once.CodeUnknown || !strings.Contains(err.Error(), `"book"`)) {
			t.Errorf("%s: the caller is told %q, %s: %v", says, once.CodeOf(err), once.EffectOf(err), err)
		}
	}
	heir.wantUnknown(t, says, says)
	if n := len(heir.rows(t, says)["book"]); n != 1 {
		t.Errorf("%s: %d effects when others have asked", says, n)
	}
	rec, err := s.Read(t.Context(), idOf(says))
	must(t, err)
	if p, err := lease.ProgressOf(idOf(says), rec); err != nil || p.Call == nil || p.Call.Phase != "book" || p.CallID == "" {
		t.Errorf("%s: the record names %+v, %v", says, p, err)
	}
}

// panicked returns the error with which fn has panicked, or its own.
func panicked(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err, _ = p.(error)
		}
	}()
	return fn()
}
