package pgxstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A pipeline is sent past [pgx.Conn], whose methods report statements to the tracer of the
// configuration. So a pipeline reports its statements itself, as pgx would: the store's own
// statements, and those in a batch, are a batch; a handler's statement that travels with the
// claim of a first attempt is a query of its own, and no part of that batch.

// tracers has the interfaces that the tracer of a connection implements; the others are nil.
type tracers struct {
	query   pgx.QueryTracer
	batch   pgx.BatchTracer
	prepare pgx.PrepareTracer
}

const tracersKey = "once.tracers"

// tracersOf asks the connection and not the pool: BeforeConnect may have set another tracer.
func tracersOf(conn *pgx.Conn) *tracers {
	data := conn.PgConn().CustomData()
	t, ok := data[tracersKey].(*tracers)
	if !ok {
		t = &tracers{query: conn.Config().Tracer}
		t.batch, _ = t.query.(pgx.BatchTracer)
		t.prepare, _ = t.query.(pgx.PrepareTracer)
		data[tracersKey] = t
	}
	return t
}

// queryTrace is one call of Exec, Query or QueryRow whose start was reported to a tracer.
type queryTrace struct {
	tracer pgx.QueryTracer // nil without a tracer
	ctx    context.Context //nolint:containedctx // the tracer's, for the rest of the call
	conn   *pgx.Conn
}

func traceQuery(ctx context.Context, conn *pgx.Conn, st statement) queryTrace {
	t := queryTrace{tracersOf(conn).query, ctx, conn}
	if t.tracer != nil {
		t.ctx = t.tracer.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: st.sql, Args: st.args})
	}
	return t
}

func (t queryTrace) end(tag pgconn.CommandTag, err error) {
	if t.tracer != nil {
		t.tracer.TraceQueryEnd(t.ctx, t.conn, pgx.TraceQueryEndData{CommandTag: tag, Err: err})
	}
}

// batchTrace is a pipeline whose start was reported to a tracer; nil: batches are not traced.
type batchTrace struct {
	tracer  pgx.BatchTracer
	ctx     context.Context //nolint:containedctx // the tracer's, for the rest of the call
	conn    *pgx.Conn
	queries []*pgx.QueuedQuery
	next    int       // of queries
	start   time.Time // when the result of next was asked for
	err     error     // the first one
	ended   bool
}

// traceBatch returns the context under which p is to be sent.
func traceBatch(ctx context.Context, conn *pgx.Conn, p pipeline) (context.Context, *batchTrace) {
	tracer := tracersOf(conn).batch
	if tracer == nil {
		return ctx, nil
	}
	b := p.batch()
	ctx = tracer.TraceBatchStart(ctx, conn, pgx.TraceBatchStartData{Batch: b})
	return ctx, &batchTrace{tracer: tracer, ctx: ctx, conn: conn, queries: b.QueuedQueries}
}

// reading is called before a result is asked for.
func (t *batchTrace) reading() {
	if t != nil {
		t.start = time.Now()
	}
}

// answered is called when a result was read, or could not be.
func (t *batchTrace) answered(tag pgconn.CommandTag, err error) {
	if !t.unread() {
		return
	}
	q := t.queries[t.next]
	t.next++
	if t.err == nil {
		t.err = err
	}
	t.tracer.TraceBatchQuery(t.ctx, t.conn, pgx.TraceBatchQueryData{SQL: q.SQL, Args: q.Arguments, CommandTag: tag, Err: err, ReadStartTime: t.start})
}

// unread reports whether results are left that were not reported to the tracer, and that no
// error replaces.
func (t *batchTrace) unread() bool {
	return t != nil && !t.ended && t.err == nil && t.next < len(t.queries)
}

// end may be called again.
func (t *batchTrace) end(err error) {
	if t == nil || t.ended {
		return
	}
	t.ended = true
	if t.err != nil {
		err = t.err
	}
	t.tracer.TraceBatchEnd(t.ctx, t.conn, pgx.TraceBatchEndData{Err: err})
}

// prepareTraced is [pgx.Conn.Prepare] for a statement that pgx shall not know.
func prepareTraced(ctx context.Context, conn *pgx.Conn, name, sql string) (_ *pgconn.StatementDescription, err error) {
	if tracer := tracersOf(conn).prepare; tracer != nil {
		ctx = tracer.TracePrepareStart(ctx, conn, pgx.TracePrepareStartData{Name: name, SQL: sql})
		defer func() { tracer.TracePrepareEnd(ctx, conn, pgx.TracePrepareEndData{Err: err}) }()
	}
	return conn.PgConn().Prepare(ctx, name, sql, nil)
}
