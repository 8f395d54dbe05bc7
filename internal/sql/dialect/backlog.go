package dialect

import (
	"strconv"
	"time"

	prefixes "github.com/oncelib/once/internal/base/prefix"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Backlog returns the query of [upkeep.Backlogger]. [ScanBacklog] reads its row.
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
	expired := "select expires_at from once_operation" + expires + " where " + done + "expires_at <= NOW order by expires_at limit "
	return Text(d, "select NOW, count(case when state = 1 then 1 end), min(case when state = 1 then since end),"+
		" count(case when state = 4 then 1 end), min(case when state = 4 then since end), count(case when state = 3 then 1 end), min(case when state = 3 then since end),"+
		" (select count(*) from ("+expired+strconv.Itoa(upkeep.MaxBacklog)+") as expired), ("+expired+"1)"+
		" from (select state, since from once_operation"+unfinished+" where expires_at is null and state <> 2 order by scope, KEY"+limit+") as unfinished")
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

// ScanBacklog reads the row of [Backlog].
func ScanBacklog(row interface{ Scan(dest ...any) error }) (b upkeep.Backlog, err error) {
	var now, running, waiting, unknown, expired Time
	if err := row.Scan(&now, &b.Running.Number, &running, &b.Waiting.Number, &waiting, &b.Unknown.Number, &unknown, &b.Expired.Number, &expired); err != nil {
		return upkeep.Backlog{}, err
	}
	for count, since := range map[*upkeep.Count]Time{&b.Running: running, &b.Waiting: waiting, &b.Unknown: unknown, &b.Expired: expired} {
		if count.Number > 0 {
			count.Oldest = max(0, time.Time(now).Sub(time.Time(since)))
		}
	}
	return b, nil
}
