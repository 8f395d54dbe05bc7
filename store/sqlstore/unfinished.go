package sqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Lister = (*Store)(nil)

// mysqlUnfinished reads the operations of one state, by an index that begins with the state and ends with the primary key.
// The parts for all states, sorted together, are the page. The last part is a row with stateReplica if the server is a
// replica.
const (
	mysqlUnfinished = "(select scope, `key`, state, fence, claim, fingerprint, coalesce(trace, '') as trace, coalesce(name, '') as name, coalesce(point, '') as point, calling, lease_until, since " +
		"from once_operation force index (once_operation_expires_at) where state = ? and expires_at is null and (scope > ? or (scope = ? and `key` > ?)) and (? or scope < ?)" +
		" order by scope, `key` limit ?)"
	mysqlPage = "(select scope, `key`, listed, n, state, fence, claim, fingerprint, 0, 0, null, null, null, trace, name, point, calling, null, coalesce(lease_until <= " + mysqlNow + ", 0), since, 0 " +
		"from (select page.*, row_number() over (order by scope, `key`) as n, " +
		"coalesce((not ? or state in (3, 4) or lease_until <= " + mysqlNow + ") and (? or name = ?), 0) as listed " +
		"from (? order by scope, `key` limit ?) as page) as page where listed or n = ?) union all " +
		"(select '', '', 1, 0, 255, 0, '', null, 0, 0, null, null, null, '', '', '', 0, null, 0, 0, 0 from dual where " + mysqlReplica + ") order by n"
)

func unfinishedMySQL(page upkeep.Listing) string {
	limit := int64(page.Limit)
	var states []string
	for _, state := range []store.State{store.StateRunning, store.StateUnknown, store.StateWaiting} {
		if page.State == store.StateAbsent || page.State == state {
			states = append(states, fill(mysqlUnfinished, int64(state), page.After.Scope, page.After.Scope, page.After.Key, page.Before == "", page.Before, limit))
		}
	}
	return fill(mysqlPage, page.Due, page.Name == "", page.Name, raw(strings.Join(states, " union all ")), limit, limit)
}

// Unfinished implements [upkeep.Lister]. On a standby, Unfinished returns an error, because operations that
// the standby does not have yet would be missing.
func (s *Store) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, next store.ID, err error) {
	if page.Limit <= 0 {
		return nil, next, nil
	}
	conn, err := s.acquire(ctx, store.BeginOptions{})
	if err != nil {
		return nil, store.ID{}, s.down(err)
	}
	defer func() { _ = conn.Close() }()
	var rows *sql.Rows
	switch s.dialect.name {
	case sqlplane.PostgreSQL:
		var standby bool
		if err = conn.QueryRowContext(ctx, pgsql.Recovery).Scan(&standby); err == nil && standby {
			sqlguard.Drop(conn)
			err = pgsql.ErrRecovery
		}
		if err == nil {
			text := pgsql.Unfinished
			if page.Before != "" {
				text = pgsql.UnfinishedBefore
			}
			rows, err = conn.QueryContext(ctx, text, listed(page)...)
		}
	case sqlplane.MySQL:
		rows, err = conn.QueryContext(ctx, unfinishedMySQL(page))
	default:
		text := sqliteUnfinished + sqliteInOrder
		if page.Before != "" {
			text = sqliteUnfinished + sqliteBefore + sqliteInOrder
		}
		rows, err = conn.QueryContext(s.ownContext(ctx), text, listed(page)...)
	}
	if err != nil {
		return nil, store.ID{}, s.down(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e upkeep.Entry
		var listed bool
		var n int
		r, err := scan(rows, &e.Scope, &e.Key, &listed, &n)
		if err != nil {
			return nil, store.ID{}, s.down(err)
		}
		if r.State == stateReplica {
			return nil, store.ID{}, s.down(errReplica)
		}
		if e.Record = r.Record; listed {
			list = append(list, e)
		}
		// The page is full, so the next page begins after this entry.
		if n == page.Limit {
			next = e.ID
		}
	}
	if err := rows.Err(); err != nil {
		return nil, store.ID{}, s.down(err)
	}
	return list, next, nil
}

// listed returns the arguments of the statements of PostgreSQL and SQLite.
func listed(page upkeep.Listing) []any {
	args := []any{page.After.Scope, page.After.Key, page.Limit, page.Due, page.Name, int64(page.State)}
	if page.Before != "" {
		args = append(args, page.Before)
	}
	return args
}
