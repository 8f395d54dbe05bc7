package sqlguard

import (
	"context"
	"database/sql/driver"
	"strings"
)

// preparedStmts contains the statements of a connection that stay prepared, by their text. For SQLite, parsing and planning a
// statement takes as long as running it.
type preparedStmts map[string]*preparedStmt

type preparedStmt struct {
	base baseStmt
	open bool // its rows are being read
}

// maxPrepared limits the number of prepared statements, because texts that contain values are all different.
const maxPrepared = 64

type ownKey struct{}

// Own returns a context for statements of the store itself: they are short and always the same, and must not be interrupted.
// SQLite keeps them prepared.
func Own(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownKey{}, true)
}

type keepKey struct{}

// KeepPrepared returns a context for statements that SQLite should keep prepared. Unlike statements with [Own], they can be
// interrupted.
func KeepPrepared(ctx context.Context) context.Context {
	return context.WithValue(ctx, keepKey{}, true)
}

func keeps(ctx context.Context) bool { return ctx.Value(keepKey{}) != nil }

func owns(ctx context.Context) bool { return ctx.Value(ownKey{}) != nil }

// uninterrupted returns a context without cancel for a statement that is not interrupted, so that the driver need not watch it.
func uninterrupted(ctx context.Context) context.Context {
	if owns(ctx) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// prepareOnce returns the prepared statement of a text. It returns nil if the text must run without being prepared, which also
// reports an error in the text.
func (c *conn) prepareOnce(query string) *preparedStmt {
	s := c.prepared[query]
	switch {
	case s == nil:
	case s.open: // the statement runs a second time while the rows of the first run are read
		return nil
	default:
		return s
	}
	base, err := prepare(context.Background(), c.base, query)
	if err != nil {
		return nil
	}
	if c.prepared == nil {
		c.prepared = preparedStmts{}
	}
	if len(c.prepared) >= maxPrepared {
		c.prepared.drop()
	}
	s = &preparedStmt{base: base}
	c.prepared[query] = s
	return s
}

// drop closes the statements that are not in use.
func (p preparedStmts) drop() {
	for query, s := range p {
		if !s.open {
			delete(p, query)
			_ = s.base.Close() // an error of Close concerns no statement that still runs
		}
	}
}

// statement returns the prepared statement of a text, or nil if the text does not stay prepared.
func (c *conn) statement(ctx context.Context, query string) *preparedStmt {
	switch {
	case c.dialect != SQLite, strings.HasPrefix(query, "pragma "): // SQLite executes a pragma when it prepares it
		return nil
	case owns(ctx), keeps(ctx):
		return c.prepareOnce(query)
	}
	return nil
}

func (c *conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if s := c.statement(ctx, query); s != nil {
		return s.base.ExecContext(uninterrupted(ctx), args)
	}
	return c.execer.ExecContext(ctx, query, args)
}

// rows runs a query. If s is not nil, the caller must release s when it closes the result.
func (c *conn) rows(ctx context.Context, query string, args []driver.NamedValue) (result driver.Rows, s *preparedStmt, err error) {
	if s = c.statement(ctx, query); s == nil {
		result, err = c.queryer.QueryContext(ctx, query, args)
		return result, nil, err
	}
	result, err = s.base.QueryContext(uninterrupted(ctx), args)
	s.open = err == nil
	return result, s, err
}
