package inbox

import (
	"strings"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// texts holds the statements that every message needs, in the dialect of the database.
type texts struct {
	dialect sqlplane.Dialect

	addOne    string         // inserts the ID of one message; if it is already stored, affects no row or fails with sqlplane.ErrDuplicate
	addMany   string         // PostgreSQL: inserts several IDs; fails with sqlplane.ErrDuplicate
	addRows   map[int]string // other databases: inserts as many IDs as the key of the map says
	removeID  string
	setResult string

	newPosition string // PostgreSQL: inserts positions, and leaves existing ones as they are
	newRows     map[int]string
	lockOne     string // reads and locks one position
	lockMany    string // PostgreSQL
	lockRows    map[int]string
	moveOne     string
	moveMany    string // PostgreSQL
}

// rowsOf holds the numbers of rows that one statement can take, for databases that need an argument for each
// value. A longer list is split into these sizes, so that only a few statements are prepared. Large statements are slow
// in the SQLite driver; small statements cost round trips to a server.
var rowsOf = map[sqlplane.Dialect][]int{
	sqlplane.MySQL:  {256, 64, 16, 4, 1},
	sqlplane.SQLite: {32, 8, 1},
}

// chunk returns how many of n rows the next statement takes.
func (t *texts) chunk(n int) int {
	for _, size := range rowsOf[t.dialect] {
		if size <= n {
			return size
		}
	}
	return n
}

// textsOf returns the statements for a dialect.
func textsOf(d sqlplane.Dialect) texts {
	const (
		add      = "insert into once_inbox (consumer, source, event_id, payload_hash, envelope, received_at, processed_at) "
		position = "insert into once_inbox_position (consumer, source, topic, KEY, seq, parked, dead, moved_at) "
		lock     = "select p.source, p.topic, p.KEY, p.seq, p.parked, p.dead, p.recent from once_inbox_position p "
		stream   = "source = ? and topic = ? and KEY = ?"
	)
	text := func(query string) string { return dialect.Text(d, query) }
	t := texts{
		dialect:   d,
		addOne:    text(add + "values (?, ?, ?, ?, ?, NOW, NOW)"),
		removeID:  text("delete from once_inbox where consumer = ? and source = ? and event_id = ?"),
		setResult: text("update once_inbox set result = ? where consumer = ? and source = ? and event_id = ?"),
		lockOne:   text(lock + "where p.consumer = ? and " + stream + " FOR UPDATE"),
		// moved_at comes first, because MySQL uses the new values of the columns that are already set. moved_at is the
		// time since which the key waits.
		moveOne: text("update once_inbox_position set moved_at = case when seq = ? and parked > 0 then moved_at else NOW end, seq = ?, parked = ?, dead = ?, recent = ? where consumer = ? and " + stream),
	}
	if d == sqlplane.PostgreSQL {
		t.addOne += " on conflict do nothing" // otherwise the server would log an error for each duplicate
		t.addMany = text(add + "select ?, t.source, t.event_id, t.hash, t.envelope, NOW, NOW from unnest(?::text[], ?::text[], ?::bytea[], ?::bytea[]) as t (source, event_id, hash, envelope)")
		t.newPosition = text(position + `select ?, t.source, t.topic, t.key, 0, 0, false, NOW from unnest(?::text[], ?::text[], ?::text[]) as t (source, topic, key) on conflict do nothing`)
		t.lockMany = text(lock + `join unnest(?::text[], ?::text[], ?::text[]) as t (source, topic, key) on p.source = t.source and p.topic = t.topic and p.key = t.key
 where p.consumer = ? order by p.source, p.topic, p.key for update of p`)
		t.moveMany = text(`update once_inbox_position p set seq = t.seq, parked = t.parked, dead = t.dead, recent = t.recent, moved_at = case when p.seq = t.seq and p.parked > 0 then p.moved_at else NOW end
 from unnest(?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::boolean[], ?::bytea[]) as t (source, topic, key, seq, parked, dead, recent)
 where p.consumer = ? and p.source = t.source and p.topic = t.topic and p.key = t.key`)
		return t
	}
	t.addRows, t.newRows, t.lockRows = map[int]string{}, map[int]string{}, map[int]string{}
	for _, n := range rowsOf[d] {
		t.addRows[n] = text(add + "values " + strings.TrimPrefix(strings.Repeat(", (?, ?, ?, ?, ?, NOW, NOW)", n), ", "))
		t.newRows[n] = text(position + "values " + strings.TrimPrefix(strings.Repeat(", (?, ?, ?, ?, 0, 0, false, NOW)", n), ", ") + " KEEP(seq)")
		t.lockRows[n] = text(lock + "where p.consumer = ? and (" + strings.TrimPrefix(strings.Repeat(" or "+stream, n), " or ") + ") order by p.source, p.topic, p.KEY FOR UPDATE")
	}
	return t
}
