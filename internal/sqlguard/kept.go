package sqlguard

import (
	"context"
	"database/sql/driver"
	"strings"
)

// kept are the statements of a connection that stay prepared, by their text. To parse
// and plan one takes SQLite as long as to run it.
type kept map[string]*keptStmt

type keptStmt struct {
	base baseStmt
	open bool // its rows are being read
}

// maxKept bounds them: texts that contain values are all different.
const maxKept = 64

type ownKey struct{}

// Own returns a context for statements that are once's own: short, always the same, and
// not to be interrupted. SQLite keeps them prepared.
func Own(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownKey{}, true)
}

func owns(ctx context.Context) bool { return ctx.Value(ownKey{}) != nil }

// uncut spares the driver from watching a context that is not to interrupt.
func uncut(ctx context.Context) context.Context {
	if owns(ctx) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// keep returns the prepared statement for a text, nil if it must be run by itself. Its
// errors are left for that to find.
func (c *conn) keep(query string) *keptStmt {
	s := c.kept[query]
	switch {
	case s == nil:
	case s.open: // a second time while the first is read
		return nil
	default:
		return s
	}
	base, err := prepare(context.Background(), c.base, query)
	if err != nil {
		return nil
	}
	if c.kept == nil {
		c.kept = kept{}
	}
	if len(c.kept) >= maxKept {
		c.kept.drop()
	}
	s = &keptStmt{base: base}
	c.kept[query] = s
	return s
}

// drop closes all that are not in use.
func (k kept) drop() {
	for query, s := range k {
		if !s.open {
			delete(k, query)
			_ = s.base.Close() // nothing waits for it
		}
	}
}

// statement returns what runs a text that may be kept.
func (c *conn) statement(ctx context.Context, query string) *keptStmt {
	switch {
	case c.dialect != SQLite, strings.HasPrefix(query, "pragma "): // which SQLite carries out when it is prepared
		return nil
	case owns(ctx), c.tx != nil && c.tx.part != nil && !c.tx.part.Settings():
		return c.keep(query)
	}
	return nil
}

func (c *conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if s := c.statement(ctx, query); s != nil {
		return s.base.ExecContext(uncut(ctx), args)
	}
	return c.execer.ExecContext(ctx, query, args)
}

// rows runs a query. Its result says to s when it is closed, if there is one.
func (c *conn) rows(ctx context.Context, query string, args []driver.NamedValue) (result driver.Rows, s *keptStmt, err error) {
	if s = c.statement(ctx, query); s == nil {
		result, err = c.queryer.QueryContext(ctx, query, args)
		return result, nil, err
	}
	result, err = s.base.QueryContext(uncut(ctx), args)
	s.open = err == nil
	return result, s, err
}
