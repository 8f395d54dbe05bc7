package pgxstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A pipeline is sent without the methods of [pgx.Conn], which report statements to the tracer. So a pipeline reports
// its statements itself, in the same way as pgx. The store's own statements and the statements of a batch are reported
// as a batch. A statement of the handler that is sent with the claim of a first attempt is reported as a query.

// tracers holds the interfaces that the tracer of a connection implements. The other interfaces are nil.
type tracers struct {
	query   pgx.QueryTracer
	batch   pgx.BatchTracer
	prepare pgx.PrepareTracer
}

const tracersKey = "once.tracers"

// tracersOf asks the connection and not the pool, because BeforeConnect may have set another tracer.
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
	ctx    context.Context //nolint:containedctx // the context of the tracer, for the rest of the call
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

// batchTrace is a pipeline whose start was reported to a tracer. A nil batchTrace reports nothing.
type batchTrace struct {
	tracer  pgx.BatchTracer
	ctx     context.Context //nolint:containedctx // the tracer's, for the rest of the call
	conn    *pgx.Conn
	queries []*pgx.QueuedQuery
	next    int       // the next one of queries
	start   time.Time // when the read of the next result began
	err     error     // the first error
	ended   bool
}

// traceBatch reports the start of p, and returns the context for the rest of the pipeline.
func traceBatch(ctx context.Context, conn *pgx.Conn, p pipeline) (context.Context, *batchTrace) {
	tracer := tracersOf(conn).batch
	if tracer == nil {
		return ctx, nil
	}
	b := p.batch()
	ctx = tracer.TraceBatchStart(ctx, conn, pgx.TraceBatchStartData{Batch: b})
	return ctx, &batchTrace{tracer: tracer, ctx: ctx, conn: conn, queries: b.QueuedQueries}
}

// reading records the time at which the read of a result begins.
func (t *batchTrace) reading() {
	if t != nil {
		t.start = time.Now()
	}
}

// answered reports the result of the next query, or its error.
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

// unread reports whether some results were not reported to the tracer yet. After an error no more results are
// reported.
func (t *batchTrace) unread() bool {
	return t != nil && !t.ended && t.err == nil && t.next < len(t.queries)
}

// end reports the end of the batch. It can be called several times.
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

// prepareTraced prepares a statement that is not added to the cache of pgx.
func prepareTraced(ctx context.Context, conn *pgx.Conn, name, sql string) (_ *pgconn.StatementDescription, err error) {
	if tracer := tracersOf(conn).prepare; tracer != nil {
		ctx = tracer.TracePrepareStart(ctx, conn, pgx.TracePrepareStartData{Name: name, SQL: sql})
		defer func() { tracer.TracePrepareEnd(ctx, conn, pgx.TracePrepareEndData{Err: err}) }()
	}
	return conn.PgConn().Prepare(ctx, name, sql, nil)
}
