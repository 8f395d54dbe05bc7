package dialect

import (
	"strconv"
	"time"

	prefixes "github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Backlog returns the query of [upkeep.Backlogger]. [AddBacklog] reads its rows: one for each state and name, and one of what has expired.
func Backlog(d sqlplane.Dialect) string { return backlogs[d] }

var backlogs = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: backlog(sqlplane.PostgreSQL, "", "", "state = 2 and "),
	sqlplane.SQLite:     backlog(sqlplane.SQLite, " indexed by once_operation_unfinished", " indexed by once_operation_expires_at", "state = 2 and "),
	// The index has all rows, in the order of the primary key where expires_at is null. Only what is done has one that is not.
	sqlplane.MySQL: backlog(sqlplane.MySQL, " force index (once_operation_expires_at)", " force index (once_operation_expires_at)", ""),
}

// backlog reads both indexes in their order, so that no planner reads the table instead, up to the limit.
func backlog(d sqlplane.Dialect, unfinished, expires, done string) string {
	limit := " limit " + strconv.Itoa(upkeep.MaxBacklog)
	return Text(d, "select NOW, state, name, count(*), min(since)"+
		" from (select state, coalesce(name, '') as name, since from once_operation"+unfinished+" where expires_at is null and state <> 2 order by scope, KEY"+limit+") as unfinished"+
		" group by state, name union all select NOW, 2, '', count(*), min(expires_at)"+
		" from (select expires_at from once_operation"+expires+" where "+done+"expires_at <= NOW order by expires_at"+limit+") as expired")
}

// UnfinishedUnder returns a query of the operations that are not done and whose scopes begin with prefix: the time, how many are unknown, how many
// have a recovery point that begins with point, and when the oldest of those was first written.
func UnfinishedUnder(d sqlplane.Dialect, prefix, point string) string {
	index := map[sqlplane.Dialect]string{sqlplane.SQLite: " indexed by once_operation_unfinished", sqlplane.MySQL: " force index (once_operation_expires_at)"}
	behind := "case when point like '" + point + "%' then "
	return Text(d, "select NOW, count(case when state = 3 then 1 end), count("+behind+"1 end), min("+behind+"since end)"+
		" from (select state, since, point from once_operation"+index[d]+" where expires_at is null and state <> 2 and scope >= '"+prefix+"' and scope < '"+prefixes.After(prefix)+"'"+
		" order by scope, KEY limit "+strconv.Itoa(upkeep.MaxBacklog)+") as unfinished")
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
