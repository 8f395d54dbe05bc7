package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// system is one store with an engine on it, whatever its transaction type is.
type system interface {
	// Do performs w once. A final failure is an answer, too.
	Do(ctx context.Context, op once.Operation, w work) (answer, bool, error)

	// Join is Do in a transaction of the caller, who commits it.
	Join(ctx context.Context, op once.Operation, w work) (answer, bool, error)

	// Batch is Do of a batch.
	Batch(ctx context.Context, op once.Operation, w work) (answer, bool, error)

	// HTTP does the work of the key that a request brings. It sees to key and
	// attempt itself.
	HTTP(attempt string, hook func(place string)) http.Handler

	// Another returns the same system with an engine of its own, as if in another
	// process. It ends with the first one.
	Another() system

	// Sweep is the store's.
	Sweep(ctx context.Context, s upkeep.Sweep) (upkeep.Swept, error)

	// Ledger is the store's.
	Ledger() store.Operations

	Close()
}

// setup is how a system is opened.
type setup struct {
	dsn    string
	dial   func(ctx context.Context, network, address string) (net.Conn, error) // nil: as usual
	hook   func(place string)                                                   // nil: not counted
	engine once.Config

	sqlstore sqlstore.Config
	conns    int
	retain   time.Duration  // in place of the engine's, which has a least; 0: the engine's
	forget   *forgetting    // nil: no answer is lost
	opens    func() *sql.DB // in place of dsn, for SQLite
	asks     bool           // a context that ends sends a cancel request, in place of closing the connection
}

// polite sets what asks says.
func (su setup) polite(cfg *pgconn.Config) {
	if su.asks {
		cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: patience}
		}
	}
}

// stores under torture.
var stores = map[string]func(context.Context, setup) (system, error){
	harness.Pgx:      openPgx,
	harness.Postgres: openPostgres,
	harness.SQLite:   openSQLite,
	harness.Group:    openGroup,
	harness.MariaDB:  openMySQL,
	harness.MySQL:    openMySQL,
}

// ownTx is a transaction that was opened by the caller of Join.
type ownTx[TX any] struct {
	tx               TX
	commit, rollback func(context.Context) error
}

// rig implements system.
type rig[TX any] struct {
	engine *once.Engine[TX]
	cfg    once.Config
	exec   func(ctx context.Context, tx TX, query string, args ...any) error
	begin  func(context.Context) (ownTx[TX], error)
	hook   func(string)
	close  func()

	dialect func(query string) string // of the writes of a batch; nil: as they are
}

func newRig[TX any](s store.Store[TX], su setup) *rig[TX] {
	if su.hook == nil {
		su.hook = func(string) {}
	}
	if su.retain > 0 {
		s = hasty[TX]{s, su.retain}
	}
	if su.forget != nil {
		s = forgetful[TX]{s, su.forget}
	}
	return &rig[TX]{engine: once.New[TX](watched[TX]{s, su.hook}, su.engine), cfg: su.engine, hook: su.hook}
}

func (r *rig[TX]) Close() { r.close() }

func (r *rig[TX]) Ledger() store.Operations { return r.engine.Store() }

func (r *rig[TX]) Another() system {
	other := *r
	other.engine = once.New[TX](r.engine.Store(), r.cfg)
	other.close = func() {}
	return &other
}

func (r *rig[TX]) Sweep(ctx context.Context, s upkeep.Sweep) (upkeep.Swept, error) {
	sweeper, ok := store.As[upkeep.Sweeper](r.engine.Store())
	if !ok {
		return upkeep.Swept{}, errors.New("the store cannot sweep")
	}
	return sweeper.Sweep(ctx, s)
}

func (r *rig[TX]) handler(w work) func(context.Context, TX) (answer, error) {
	return func(ctx context.Context, tx TX) (answer, error) { return w.do(ctx, r.execer(tx)) }
}

func (r *rig[TX]) execer(tx TX) execer {
	return func(ctx context.Context, query string, args ...any) error { return r.exec(ctx, tx, query, args...) }
}

func (r *rig[TX]) Do(ctx context.Context, op once.Operation, w work) (answer, bool, error) {
	return answered(once.Do(ctx, r.engine, op, r.handler(w)))
}

func (r *rig[TX]) Batch(ctx context.Context, op once.Operation, w work) (answer, bool, error) {
	return answered(once.DoBatch(ctx, r.engine, op, func(b *once.Batch) (answer, error) {
		return w.do(ctx, func(_ context.Context, query string, args ...any) error {
			if r.dialect != nil {
				query = r.dialect(query)
			}
			b.ExecRows(1, query, args...)
			return nil
		})
	}))
}

// answered makes an answer of a final failure.
func answered(res once.Result[answer], err error) (answer, bool, error) {
	if f := (*once.Failure)(nil); errors.As(err, &f) {
		return answer{Attempt: f.Message}, res.Replayed, nil
	}
	return res.Value, res.Replayed, err
}

func (r *rig[TX]) Join(ctx context.Context, op once.Operation, w work) (answer, bool, error) {
	r.hook("caller: before begin")
	own, err := r.begin(ctx)
	if err != nil {
		return answer{}, false, err
	}
	r.hook("caller: after begin")
	a, replayed, err := answered(once.Join(ctx, r.engine, own.tx, op, r.handler(w)))
	if err != nil {
		return a, false, errors.Join(err, own.rollback(ctx))
	}
	r.hook("caller: before commit")
	if err := own.commit(ctx); err != nil {
		return answer{}, false, fmt.Errorf("the caller's commit: %w", err)
	}
	r.hook("caller: after commit")
	return a, replayed, nil
}
