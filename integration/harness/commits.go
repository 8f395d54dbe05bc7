package harness

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Commits is a tracer of pgx that counts commits and all statements, whether they travel alone or with others. A batch outside of a transaction that
// has neither BEGIN nor COMMIT commits by itself.
type Commits struct{ n, all atomic.Int64 }

// Count is how many there were.
func (c *Commits) Count() int64 { return c.n.Load() }

// Statements is how many statements there were.
func (c *Commits) Statements() int64 { return c.all.Load() }

func (c *Commits) see(sql string) {
	c.all.Add(1)
	if strings.EqualFold(sql, "commit") {
		c.n.Add(1)
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (c *Commits) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.see(data.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*Commits) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

type commitsByItself struct{}

// TraceBatchStart implements pgx.BatchTracer.
func (*Commits) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	byItself := conn.PgConn().TxStatus() == 'I'
	for _, q := range data.Batch.QueuedQueries {
		byItself = byItself && !strings.HasPrefix(strings.ToLower(q.SQL), "begin")
	}
	return context.WithValue(ctx, commitsByItself{}, byItself)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (c *Commits) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	c.see(data.SQL)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (c *Commits) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	if byItself, _ := ctx.Value(commitsByItself{}).(bool); byItself && data.Err == nil {
		c.n.Add(1)
	}
}
