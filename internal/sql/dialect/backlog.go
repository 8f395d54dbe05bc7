package dialect

import (
	"strconv"
	"strings"
	"time"

	prefixes "github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Backlog returns the query of [upkeep.Backlogger]. [AddBacklog] reads its rows: one row for each state and name, and one row for
// expired operations.
func Backlog(d sqlplane.Dialect) string { return backlogs[d] }

var backlogs = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: backlog(sqlplane.PostgreSQL),
	sqlplane.SQLite:     backlog(sqlplane.SQLite),
	sqlplane.MySQL:      backlog(sqlplane.MySQL),
}

// backlog returns the query for a dialect. The query reads two indexes in their order, up to the limit, so that no planner reads
// the table instead.
func backlog(d sqlplane.Dialect) string {
	return Text(d, "select NOW, state, name, count(*), min(since) from "+unfinished(d, "state, coalesce(name, '') as name, since", "", upkeep.MaxBacklog)+
		" group by state, name union all select NOW, 2, '', count(*), min(expires_at) from "+Expired(d, "expires_at", upkeep.MaxBacklog))
}

// Expired returns a table expression of the n operations that expired first.
func Expired(d sqlplane.Dialect, columns string, n int) string {
	hint := map[sqlplane.Dialect]string{sqlplane.SQLite: " indexed by once_operation_expires_at", sqlplane.MySQL: " force index (once_operation_expires_at)"}
	return "(select " + columns + " from once_operation" + hint[d] + " where state = 2 and expires_at <= NOW order by expires_at" + limit(n) + ") as expired"
}

func limit(n int) string { return " limit " + strconv.Itoa(n) }

// Unfinished returns a table expression of operations that are not done: the first n by scope and key; on MySQL, the first n of
// each state. It reads no other operations.
func Unfinished(d sqlplane.Dialect, columns string, n int) string {
	return unfinished(d, columns, "", n)
}

// unfinished returns a table expression of operations that are not done, up to a limit. It uses an index that contains only
// such operations. The index of MySQL also contains finished operations, after the other states. So on MySQL the limit
// applies to each state.
func unfinished(d sqlplane.Dialect, columns, under string, most int) string {
	const from = " from once_operation"
	under += " order by scope, KEY" + limit(most)
	switch d {
	case sqlplane.MySQL:
		var states []string
		for _, state := range []store.State{store.StateRunning, store.StateUnknown, store.StateWaiting} {
			states = append(states, "(select "+columns+from+" force index (once_operation_expires_at) where state = "+strconv.Itoa(int(state))+" and expires_at is null"+under+")")
		}
		return "(" + strings.Join(states, " union all ") + ") as unfinished"
	case sqlplane.SQLite:
		return "(select " + columns + from + " indexed by once_operation_unfinished where expires_at is null and state <> 2" + under + ") as unfinished"
	}
	return "(select " + columns + from + " where state <> 2" + under + ") as unfinished" // with more conditions PostgreSQL underestimates the number of rows, and sorts all of them
}

// UnfinishedUnder returns a query about the unfinished operations whose scopes begin with prefix. The query returns the time,
// the number of unknown operations, the number of operations whose recovery point begins with point, and the time when the
// oldest of these was first written.
func UnfinishedUnder(d sqlplane.Dialect, prefix, point string) string {
	behind := "case when point like '" + point + "%' then "
	return Text(d, "select NOW, count(case when state = 3 then 1 end), count("+behind+"1 end), min("+behind+"since end) from "+
		unfinished(d, "state, since, point", " and scope >= '"+prefix+"' and scope < '"+prefixes.After(prefix)+"'", upkeep.MaxBacklog))
}

// AddBacklog adds a row of [Backlog] to b.
func AddBacklog(b *upkeep.Backlog, row interface{ Scan(dest ...any) error }) error {
	var now, oldest Time
	var state store.State
	var name string
	var n int
	if err := row.Scan(&now, &state, &name, &n, &oldest); err != nil || n == 0 {
		return err
	}
	b.Add(state, name, n, time.Time(now).Sub(time.Time(oldest)))
	return nil
}
