package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// multiplexing is MySQL's driver behind a proxy that gives a session to others between two packets: locks of the session do not last.
type multiplexing struct {
	driver.Connector
	lost *atomic.Int64 // locks
}

func (m multiplexing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := m.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &multiplexed{mysqlConn: conn.(mysqlConn), lost: m.lost}, nil
}

type multiplexed struct {
	mysqlConn
	lost  *atomic.Int64
	locks bool // the packet before has asked for one
}

func (c *multiplexed) before(ctx context.Context, query string) (err error) {
	if c.locks {
		_, err = c.mysqlConn.ExecContext(ctx, "do release_all_locks()", nil)
		c.lost.Add(1)
	}
	c.locks = strings.Contains(query, "get_lock")
	return err
}

func (c *multiplexed) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.before(ctx, query); err != nil {
		return nil, err
	}
	return c.mysqlConn.ExecContext(ctx, query, args)
}

func (c *multiplexed) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.before(ctx, query); err != nil {
		return nil, err
	}
	return c.mysqlConn.QueryContext(ctx, query, args)
}

// withoutLocks is open behind such a proxy.
func (on innodb) withoutLocks(t *testing.T, parameters string) (*sql.DB, *sqlstore.Store, *atomic.Int64) {
	t.Helper()
	cfg, err := mysql.ParseDSN(on.created(t) + parameters)
	if err != nil {
		t.Fatal(err)
	}
	base, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lost := new(atomic.Int64)
	db := sqlstore.OpenDB(sqlplane.MySQL, multiplexing{base, lost})
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	run(t, db, "create table effect (name varchar(100) not null)")
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return db, s, lost
}

// TestTheKeyDecidesWithoutLocks: two sessions hold the claim of one operation, because a lock was let go behind their backs. One of them
// commits, and the other one has applied nothing.
func TestTheKeyDecidesWithoutLocks(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		for _, parameters := range []string{"", severalInPacket} {
			db, s, lost := on.withoutLocks(t, parameters)
			effects := 0
			for _, first := range []bool{false, true} {
				for _, rolledBack := range []bool{false, true} {
					id := store.ID{Scope: "s", Key: strings.Repeat("k", 1+effects)}
					var claims [2]store.Transaction[*sql.Tx]
					for i := range claims {
						txn, rec, err := s.Begin(ctx, store.BeginOptions{ID: id, First: first})
						if txn == nil {
							t.Fatalf("%q, first %t: %+v, %v", parameters, first, rec, err)
						}
						claims[i] = txn
						for range 2 { // before the second one the lock is lost
							if err := effect(ctx, txn.Tx(), "one"); err != nil {
								t.Fatal(err)
							}
						}
					}
					change := store.Change{ID: id, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("n")}}
					want := store.KindTaken
					if rolledBack {
						want = store.KindOther
						if err := claims[0].Rollback(ctx); err != nil {
							t.Error(err)
						}
					} else if err := claims[0].Commit(ctx, change); err != nil {
						t.Error(err)
					}
					err := claims[1].Commit(ctx, change)
					if store.KindOf(err) != want || (err == nil) != rolledBack {
						t.Errorf("%q, first %t, rolled back %t: %v", parameters, first, rolledBack, err)
					}
					effects += 2
					if n := count(t, db, "select count(*) from effect"); n != effects {
						t.Errorf("%q, first %t, rolled back %t: %d effects, want %d", parameters, first, rolledBack, n, effects)
					}
				}
			}
			if lost.Load() == 0 {
				t.Errorf("%q: no lock was lost", parameters)
			}
		}
	})
}

// TestTheKeyDecidesBetweenCalls: two processes run the handler of one operation at the same time, and one is told what the other has done.
func TestTheKeyDecidesBetweenCalls(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		for _, parameters := range []string{"", severalInPacket} {
			db, s, _ := on.withoutLocks(t, parameters)
			type answer struct {
				replayed bool
				err      error
			}
			answers := make(chan answer, 2)
			inside, goOn := make(chan struct{}, 2), make(chan struct{})
			for range 2 {
				go func() {
					r, err := once.Do(t.Context(), once.New(s, once.Config{}), once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, tx *sql.Tx) (int, error) {
						if err := effect(ctx, tx, "one"); err != nil {
							return 0, err
						}
						err := effect(ctx, tx, "two")
						inside <- struct{}{}
						<-goOn
						return 1, err
					})
					answers <- answer{r.Replayed, err}
				}()
				select {
				case <-inside:
				case a := <-answers:
					t.Fatalf("%q: %+v", parameters, a)
				}
			}
			close(goOn)
			a, b := <-answers, <-answers
			if a.err != nil || b.err != nil || a.replayed == b.replayed {
				t.Errorf("%q: %+v, %+v", parameters, a, b)
			}
			if n := count(t, db, "select count(*) from effect"); n != 2 {
				t.Errorf("%q: %d effects, want 2", parameters, n)
			}
		}
	})
}

// TestBesideAnEarlierRelease: nodes of an earlier release claim on MariaDB by inserting the record first, and know no lock. Whichever of
// them and a node of this release begins first, one of them commits.
func TestBesideAnEarlierRelease(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		for _, parameters := range []string{"", severalInPacket} {
			db, s := on.open(t, parameters, nil)
			for _, earlierFirst := range []bool{true, false} {
				for _, commits := range []bool{true, false} {
					key := map[bool]string{true: "k", false: "l"}[commits] + map[bool]string{true: "k", false: "l"}[earlierFirst]
					earlier, err := db.BeginTx(ctx, nil)
					if err != nil {
						t.Fatal(err)
					}
					claim := func() {
						run(t, earlier, "insert into once_operation (scope, `key`, since) values ('s', '"+key+"', 1)")
					}
					if earlierFirst {
						claim()
					}
					done := make(chan error, 1)
					inside := make(chan struct{}, 2)
					goOn := make(chan struct{})
					replayed := false
					go func() {
						r, err := once.Do(ctx, once.New(s, once.Config{}), once.Operation{Scope: "s", Key: key}, func(ctx context.Context, tx *sql.Tx) (int, error) {
							err := effect(ctx, tx, key)
							inside <- struct{}{}
							<-goOn
							return 2, err
						})
						replayed = r.Replayed
						done <- err
					}()
					<-inside
					if !earlierFirst {
						claim()
					}
					close(goOn)
					effects := 1
					if commits {
						effects = 0
						run(t, earlier, "update once_operation set state = 2, claim = 'n', body = '1' where scope = 's' and `key` = '"+key+"'")
						err = earlier.Commit()
					} else {
						err = earlier.Rollback()
					}
					if err != nil {
						t.Error(err)
					}
					if err := <-done; err != nil || replayed != commits {
						t.Errorf("%q, earlier first %t, it commits %t: replayed %t, %v", parameters, earlierFirst, commits, replayed, err)
					}
					if n := count(t, db, "select count(*) from effect where name = '"+key+"'"); n != effects {
						t.Errorf("%q, earlier first %t, it commits %t: %d effects, want %d", parameters, earlierFirst, commits, n, effects)
					}
				}
			}
		}
	})
}
