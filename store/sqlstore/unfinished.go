package sqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Lister = (*Store)(nil)

// mysqlUnfinished reads the operations of a state, by the index that begins with it and ends with the primary key. A transaction may have a
// row that no other one sees. The last part is a row with stateReplica.
const (
	mysqlUnfinished = "(select scope as s, `key` as k, state, fence, claim, fingerprint, 0, 0, null, null, null, coalesce(trace, ''), coalesce(name, ''), coalesce(point, ''), calling, null, " +
		"coalesce(lease_until <= " + mysqlNow + ", 0), since, 0 from once_operation force index (once_operation_expires_at) " +
		"where state = ? and expires_at is null and (scope > ? or (scope = ? and `key` > ?)) and (not ? or state in (3, 4) or lease_until <= " + mysqlNow + ") and (? or name = ?) and (? or scope < ?)" +
		" order by scope, `key` limit ?) union all "
	mysqlNotReplica = "(select '', '', 255, 0, '', null, 0, 0, null, null, null, '', '', '', 0, null, 0, 0, 0 from dual where " + mysqlReplica + ") order by s, k limit ?"
)

func unfinishedMySQL(page upkeep.Listing) string {
	var text strings.Builder
	for _, state := range []store.State{store.StateRunning, store.StateUnknown, store.StateWaiting} {
		if page.State == store.StateAbsent || page.State == state {
			text.WriteString(fill(mysqlUnfinished, int64(state), page.After.Scope, page.After.Scope, page.After.Key, page.Due,
				page.Name == "", page.Name, page.Before == "", page.Before, int64(page.Limit)))
		}
	}
	text.WriteString(fill(mysqlNotReplica, int64(page.Limit)))
	return text.String()
}

// Unfinished implements [upkeep.Lister]. On a standby it is an error: what is not there yet would be
// left out.
func (s *Store) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, err error) {
	if page.Limit <= 0 {
		return nil, nil
	}
	conn, err := s.acquire(ctx, store.BeginOptions{})
	if err != nil {
		return nil, s.down(err)
	}
	defer func() { _ = conn.Close() }()
	var rows *sql.Rows
	switch s.dialect.name {
	case sqlplane.PostgreSQL:
		var standby bool
		if err = conn.QueryRowContext(ctx, pgsql.Recovery).Scan(&standby); err == nil && standby {
			dropConn(conn)
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
		return nil, s.down(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e upkeep.Entry
		r, err := scan(rows, &e.Scope, &e.Key)
		if err != nil {
			return nil, s.down(err)
		}
		if r.State == stateReplica {
			return nil, s.down(errReplica)
		}
		e.Record = r.Record
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, s.down(err)
	}
	return list, nil
}

// listed are the arguments of the texts of PostgreSQL and SQLite.
func listed(page upkeep.Listing) []any {
	args := []any{page.After.Scope, page.After.Key, page.Limit, page.Due, page.Name, int64(page.State)}
	if page.Before != "" {
		args = append(args, page.Before)
	}
	return args
}
