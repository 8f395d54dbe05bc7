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

// Store is a [store.Store] that executes only operations of tenants that its region owns. Every commit of an
// operation checks in its own transaction that the region owns the tenant. On pgxstore the check needs no
// additional round trip.
type Store[TX any] struct {
	base    store.Store[TX]
	joiner  store.Joiner[TX]
	writer  upkeep.Writer[TX]
	seen    visible[TX]
	regions *Map
	owned   string // the statement that checks the ownership
}

// visible has the abilities of the wrapped store. It has no [upkeep.Taker], which would take over operations without the check.
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

// New returns a store that wraps s. s must be a pgxstore or a sqlstore on PostgreSQL or SQLite, whose database
// was migrated with [Migrations]; otherwise New panics. If the database contains a later move of a tenant than
// the Map that is passed as regions, the Store writes the new home of the tenant to the Map when the Store
// refuses an operation of the tenant, or when a [Handler] with the same Map asks for the home.
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
			panic(fmt.Sprintf("home: New: the store %T does not use PostgreSQL or SQLite. Try: pgxstore or sqlstore", s))
		}
	}
	regions.mu.Lock()
	defer regions.mu.Unlock()
	regions.read = h.homeOf
	return h
}

// Unwrap returns the store that s wraps, so that [store.As] finds the optional interfaces of the wrapped store.
func (s *Store[TX]) Unwrap() any { return s.seen }

// owned holds the statements that fail unless this region owns the tenant and no move has begun. A row that a move has locked is skipped like a
// missing row, so that no transaction waits for a move. The lock of the statement keeps a move from beginning before the commit.
var owned = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "select case count(*) when 1 then 1 else (count(*) || ' rows of once_home')::int end from (" +
		"select 1 from once_home h where h.tenant = $1 and h.owned and " + stays + " for share of h skip locked) as here",
	sqlplane.SQLite: "update once_home as h set owned = owned where h.tenant = ? and h.owned and " + stays,
}

// stays is false as soon as a move has begun. Without it, new transactions could take share locks again and again, and the move would never get its lock.
const stays = "not exists (select 1 from once_home_move m where m.tenant = h.tenant)"

// check returns the statement that fails unless this region owns tenant.
func (s *Store[TX]) check(tenant string) store.Statement {
	st := store.Statement{SQL: s.owned, Args: []any{tenant}}
	// The statement of SQLite does not fail by itself if no row matches.
	if s.seen.Dialect() == sqlplane.SQLite {
		st.Rows = 1
	}
	return st
}

// Require lets tx commit only if the region of the Store owns tenant. Call Require in transactions of a tenant that execute no operation
// of an engine. On pgxstore the check runs together with the commit, and the commit returns the error.
func (s *Store[TX]) Require(ctx context.Context, tx TX, tenant string) error {
	return s.refused(ctx, tenant, s.seen.On(tx).Append(ctx, s.check(tenant)))
}

// under returns c with the check of its tenant.
func (s *Store[TX]) under(c store.Change) store.Change {
	if !c.ID.IsZero() {
		c.Writes = append(slices.Clip(c.Writes), s.check(TenantOf(c.ID.Scope)))
	}
	return c
}

// NotHomeError is returned if the region does not own a tenant, or is moving the tenant to another region. If an operation returns NotHomeError,
// nothing was applied, and the request may be sent again with the same key.
type NotHomeError struct {
	Tenant string
	Pin    // the home of the tenant, as far as the database knows; zero if the database does not contain the home
}

func (e *NotHomeError) Error() string {
	if e.Region == "" {
		return fmt.Sprintf("home: the tenant %.40q belongs to another region, or no region owns it. Try: once home show", e.Tenant)
	}
	return fmt.Sprintf("home: the tenant %.40q belongs to the region %s, or is moving to it. Try: send the same request again, with the same key", e.Tenant, e.Region)
}

// refused returns a [NotHomeError] if err comes from the check, and otherwise err.
func (s *Store[TX]) refused(ctx context.Context, tenant string, err error) error {
	if err == nil || store.KindOf(err) != store.KindOther || !strings.Contains(err.Error(), "once_home") {
		return err
	}
	return &store.Error{Kind: store.KindUnavailable, Err: &NotHomeError{tenant, s.homeOf(ctx, tenant)}}
}

// homeOf returns the home of a tenant as far as the database knows, and adds it to the map. The result is zero if the database does not know the
// home: it has no row, or a move to this region has begun.
func (s *Store[TX]) homeOf(ctx context.Context, tenant string) (p Pin) {
	read := store.Statement{SQL: dialect.Text(s.seen.Dialect(), "select region, epoch from once_home where tenant = ?"), Args: []any{tenant}}
	err := s.seen.Pool().Query(ctx, read, func(row sqlplane.Row) error { return row.Scan(&p.Region, &p.Epoch) })
	if err != nil || p.Region == "" {
		return Pin{}
	}
	s.regions.Pin(tenant, p) // the database may know a later move than this process
	return p
}

// Read implements [store.Operations]. Read also finds operations that this region executed before their tenant
// was moved to another region, as long as the rows of these operations exist.
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

// checked wraps the transaction of a successful Begin or Join.
func (s *Store[TX]) checked(t store.Transaction[TX], rec store.Record, err error) (store.Transaction[TX], store.Record, error) {
	if t == nil {
		return nil, rec, err
	}
	return &transaction[TX]{t, s}, rec, err
}

// transaction is a transaction whose commit includes the check.
type transaction[TX any] struct {
	store.Transaction[TX]

	s *Store[TX]
}

// Unwrap gives access to the optional interfaces of the transaction below.
func (t *transaction[TX]) Unwrap() any { return t.Transaction }

// Commit implements [store.Transaction].
func (t *transaction[TX]) Commit(ctx context.Context, c store.Change) error {
	return t.s.refused(ctx, TenantOf(c.ID.Scope), t.Transaction.Commit(ctx, t.s.under(c)))
}
