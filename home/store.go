package home

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Store is a [store.Store] for the tenants of its region: whatever it commits of an operation commits only if the region owns the tenant of
// the operation. On pgxstore that takes no round trip more.
type Store[TX any] struct {
	base    store.Store[TX]
	joiner  store.Joiner[TX]
	writer  upkeep.Writer[TX]
	seen    visible[TX]
	regions *Map
	owned   string // the check
}

// visible are the abilities of the store below. A [upkeep.Taker] is left out, which takes over operations without a check.
type visible[TX any] struct {
	sqlplane.SQL[TX]
	sqlplane.Reserver
	store.Classifier
	store.Checker
	store.Renewer
	upkeep.Lister
	upkeep.Sweeper
	upkeep.Backlogger
	upkeep.Pooled
	ability.DeadlockDetector
}

var (
	_ store.Store[any]   = (*Store[any])(nil)
	_ store.Joiner[any]  = (*Store[any])(nil)
	_ upkeep.Writer[any] = (*Store[any])(nil)
)

// New returns a store on s, a pgxstore or a sqlstore on PostgreSQL or SQLite whose database has [Migrations]. It adds
// moves to regions that the database knows and regions does not. New panics if s is another store.
func New[TX any](s store.Store[TX], regions *Map) *Store[TX] {
	h := &Store[TX]{base: s, regions: regions}
	var ok bool
	for _, found := range []func(){
		func() { h.joiner, ok = store.As[store.Joiner[TX]](s) },
		func() { h.writer, ok = store.As[upkeep.Writer[TX]](s) },
		func() { h.seen.SQL, ok = store.As[sqlplane.SQL[TX]](s) },
		func() { h.seen.Reserver, ok = store.As[sqlplane.Reserver](s) },
		func() { h.seen.Classifier, ok = store.As[store.Classifier](s) },
		func() { h.seen.Checker, ok = store.As[store.Checker](s) },
		func() { h.seen.Renewer, ok = store.As[store.Renewer](s) },
		func() { h.seen.Lister, ok = store.As[upkeep.Lister](s) },
		func() { h.seen.Sweeper, ok = store.As[upkeep.Sweeper](s) },
		func() { h.seen.Backlogger, ok = store.As[upkeep.Backlogger](s) },
		func() { h.seen.Pooled, ok = store.As[upkeep.Pooled](s) },
		func() { h.seen.DeadlockDetector, ok = store.As[ability.DeadlockDetector](s) },
		func() { h.owned, ok = owned[h.seen.Dialect()] },
	} {
		if found(); !ok {
			panic(fmt.Sprintf("home: New: a %T is no store on PostgreSQL or SQLite. Try: pgxstore or sqlstore", s))
		}
	}
	return h
}

// Unwrap lets the abilities of the store below be found.
func (s *Store[TX]) Unwrap() any { return s.seen }

// owned fail unless the tenant lives here and is not about to leave. A row that a move has locked counts as one that is not there: nothing waits for a
// move. Until the commit, no move can take the tenant away.
var owned = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "select case count(*) when 1 then 1 else (count(*) || ' rows of once_home')::int end from (" +
		"select 1 from once_home h where h.tenant = $1 and h.owned and " + stays + " for share of h skip locked) as here",
	sqlplane.SQLite: "update once_home as h set owned = owned where h.tenant = ? and h.owned and " + stays,
}

// stays is false from the beginning of a move on: share locks without end would keep the move from its lock.
const stays = "not exists (select 1 from once_home_move m where m.tenant = h.tenant)"

func (s *Store[TX]) check(tenant string) store.Statement {
	st := store.Statement{SQL: s.owned, Args: []any{tenant}}
	if s.seen.Dialect() == sqlplane.SQLite {
		st.Rows = 1
	}
	return st
}

// Require has tx commit only if tenant lives here, for a transaction that no operation is in. On pgxstore it is checked together with the
// commit, which then returns the error.
func (s *Store[TX]) Require(ctx context.Context, tx TX, tenant string) error {
	return s.refused(ctx, tenant, s.seen.On(tx).Append(ctx, s.check(tenant)))
}

// under adds the check to a change.
func (s *Store[TX]) under(c store.Change) store.Change {
	if !c.ID.IsZero() {
		c.Writes = append(slices.Clip(c.Writes), s.check(TenantOf(c.ID.Scope)))
	}
	return c
}

// NotHomeError says that a tenant is not owned by the region that was asked, or is about to leave it. Nothing was applied, and the same key
// may be sent again.
type NotHomeError struct {
	Tenant string
	Pin    // where it lives, as far as the database knows; zero if it does not
}

func (e *NotHomeError) Error() string {
	if e.Region == "" {
		return fmt.Sprintf("home: the tenant %.40q does not live in this region. Try: once home show", e.Tenant)
	}
	return fmt.Sprintf("home: the tenant %.40q lives in %s, or is moved there. Try: the same key again", e.Tenant, e.Region)
}

// refused finds out whether a commit has failed because of the check.
func (s *Store[TX]) refused(ctx context.Context, tenant string, err error) error {
	if err == nil || store.KindOf(err) != store.KindOther || !strings.Contains(err.Error(), "once_home") {
		return err
	}
	e := &NotHomeError{Tenant: tenant}
	read := store.Statement{SQL: dialect.Text(s.seen.Dialect(), "select region, epoch from once_home where tenant = ?"), Args: []any{tenant}}
	err = s.seen.Pool().Query(ctx, read, func(row sqlplane.Row) error { return row.Scan(&e.Region, &e.Epoch) })
	if err == nil && e.Epoch > 0 {
		s.regions.Pin(tenant, e.Pin)
	}
	return &store.Error{Kind: store.KindUnavailable, Err: e}
}

// Read implements [store.Operations]. It still finds operations that were executed here before the tenant left.
func (s *Store[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	return s.base.Read(ctx, id)
}

// Swap implements [store.Operations].
func (s *Store[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	rec, err := s.base.Swap(ctx, s.under(c))
	return rec, s.refused(ctx, TenantOf(c.ID.Scope), err)
}

// Write implements [upkeep.Writer].
func (s *Store[TX]) Write(ctx context.Context, tx TX, c store.Change) (store.Record, error) {
	rec, err := s.writer.Write(ctx, tx, s.under(c))
	return rec, s.refused(ctx, TenantOf(c.ID.Scope), err)
}

// Begin implements [store.Store].
func (s *Store[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	return s.checked(s.base.Begin(ctx, opts))
}

// Join implements [store.Joiner].
func (s *Store[TX]) Join(ctx context.Context, tx TX, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	return s.checked(s.joiner.Join(ctx, tx, opts))
}

func (s *Store[TX]) checked(t store.Transaction[TX], rec store.Record, err error) (store.Transaction[TX], store.Record, error) {
	if t == nil {
		return nil, rec, err
	}
	return &transaction[TX]{t, s}, rec, err
}

// transaction commits with the check.
type transaction[TX any] struct {
	store.Transaction[TX]

	s *Store[TX]
}

// Unwrap lets the abilities of the transaction below be found.
func (t *transaction[TX]) Unwrap() any { return t.Transaction }

// Commit implements [store.Transaction].
func (t *transaction[TX]) Commit(ctx context.Context, c store.Change) error {
	return t.s.refused(ctx, TenantOf(c.ID.Scope), t.Transaction.Commit(ctx, t.s.under(c)))
}
