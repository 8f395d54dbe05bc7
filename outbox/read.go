package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// item is a message of a unit of work.
type item struct {
	stored

	queue   *queue
	blocked bool     // it has failed, or an earlier message of its key has
	failure *failure // its earlier failures; nil if it has none
	sent    bool     // Publish was called with it
	attempt int
	outcome outcome
	written bool      // its outcome is written to the database
	err     error     // of outcomeFailed
	nextAt  time.Time // of outcomeFailed: zero if it is stopped
}

// failure is a message whose delivery has failed.
type failure struct {
	attempts int64
	since    time.Time // when it failed for the first time
}

// outcome is the outcome of an item.
type outcome uint8

const (
	outcomeLeft      outcome = iota // not known: it is read again
	outcomeWaits                    // it waits for another message or a pause: a page or its key reads it again
	outcomeDelivered                // the destination has confirmed it
	outcomeFailed
)

// messageID names a message in the tables.
type messageID struct {
	part int
	id   int64
}

// maxBytes bounds the payloads and headers of a batch: a larger message is a batch of its own.
const maxBytes = 8 << 20

// query is a statement as it is being written.
type query struct {
	dialect sqlplane.Dialect
	text    strings.Builder
	args    []any
}

func (r *Relay) query() *query { return &query{dialect: r.db.Dialect()} }

// write writes text as package dialect does, without arguments.
func (q *query) write(text ...string) *query {
	for _, t := range text {
		q.text.WriteString(dialect.Text(q.dialect, t))
	}
	return q
}

// arg writes an argument.
func (q *query) arg(v any) *query {
	q.args = append(q.args, v)
	if q.dialect == sqlplane.PostgreSQL {
		return q.write("$", strconv.Itoa(len(q.args)))
	}
	q.text.WriteByte('?')
	return q
}

// pick writes the text of the dialect.
func (q *query) pick(postgres, mysql, sqlite string) *query {
	return q.write(map[sqlplane.Dialect]string{sqlplane.PostgreSQL: postgres, sqlplane.MySQL: mysql, sqlplane.SQLite: sqlite}[q.dialect])
}

func (q *query) statement() store.Statement {
	return store.Statement{SQL: q.text.String(), Args: q.args}
}

// columnOf names a column of the rows over which [query.each] runs.
type columnOf func(column int)

// each writes a select that runs the select of body for each row of list, with one range of an index for each
// row. On PostgreSQL one select is planned for all rows, so its text does not depend on their number. The other
// databases have no LATERAL. The values in rows are string and int64.
func (q *query) each(rows [][]any, types []string, body func(value columnOf)) *query {
	if q.dialect != sqlplane.PostgreSQL {
		for i, row := range rows {
			if i > 0 {
				q.write(" union all ")
			}
			q.write("select * from (")
			body(func(column int) {
				switch v := row[column].(type) { // as an argument MySQL would prepare it, with another round trip
				case int64:
					q.text.WriteString(strconv.FormatInt(v, 10))
				case string:
					if q.dialect == sqlplane.MySQL {
						fmt.Fprintf(&q.text, "x'%x'", v)
						return
					}
					q.arg(v)
				}
			})
			q.write(") m", strconv.Itoa(i))
		}
		return q
	}
	q.write("select m.* from unnest(")
	names := make([]string, len(types))
	for i, list := range dialect.Arrays(rows) {
		if i > 0 {
			q.write(", ")
		}
		q.arg(list).write("::text::", types[i], "[]") //nolint:gosec // rows have a value for each type
		names[i] = "c" + strconv.Itoa(i)
	}
	q.write(") x(", strings.Join(names, ", "), ") cross join lateral (")
	body(func(column int) { q.write("x.", names[column]) })
	return q.write(") m")
}

// hasFailed is true if a row of once_outbox has failed, and isBehind if an earlier one of its key has. They are scalar subqueries, so that no plan
// reads all failures; on PostgreSQL the second one follows the order of an index for the same reason.
const (
	hasFailed     = "(select true from once_outbox_failed f where f.part = o.part and f.id = o.id limit 1)"
	isBehind      = "(select true from once_outbox_failed f where o.KEY <> '' and f.topic = o.topic and f.KEY = o.KEY limit 1)"
	isBehindByRow = "case when o.key <> '' then (select (f.topic, f.key) = (o.topic, o.key) from once_outbox_failed f where (f.topic, f.key) >= (o.topic, o.key) order by f.topic, f.key limit 1) end"
)

// rangeOf is the range of ids of a queue that a statement reads.
type rangeOf struct {
	queue     *queue
	low, high int64 // above low, and at most high
	rows      int
}

// above reads messages of queues by their ids. For queues in trouble it also reads which messages are blocked, and leaves their payloads out.
func (r *Relay) above(list []rangeOf, trouble bool) store.Statement {
	rows := make([][]any, len(list))
	for i, l := range list {
		rows[i] = []any{l.queue.topic.name, int64(l.queue.part.Number), l.low, l.high, int64(l.rows)}
	}
	q := r.query()
	return q.each(rows, []string{"text", "smallint", "bigint", "bigint", "bigint"}, func(value columnOf) {
		if trouble {
			q.write("select part, id, topic, KEY, seq, event_id, event_type, source, case when blocked then null else headers end, case when blocked then null else payload end, encrypted, trace, created_at, blocked from (")
		}
		q.write("select ", storedColumns, ", ")
		if trouble {
			q.write("coalesce(", hasFailed, ", ").pick(isBehindByRow, isBehind, isBehind).write(", false) as blocked")
		} else {
			q.write("false as blocked")
		}
		q.write(" from once_outbox o").pick("", " force index (once_outbox_queue)", " indexed by once_outbox_queue")
		q.write(" where topic = ")
		value(0)
		q.write(" and part = ")
		value(1)
		if q.dialect == sqlplane.PostgreSQL { // no other index can read such a range
			q.write(" and (topic, part, id) > (")
			value(0)
			q.write(", ")
			value(1)
			q.write(", ")
			value(2)
			q.write(") and (topic, part, id) <= (")
			value(0)
			q.write(", ")
			value(1)
			q.write(", ")
			value(3)
			q.write(") order by topic, part, id limit ")
		} else {
			q.write(" and id > ")
			value(2)
			q.write(" and id <= ")
			value(3)
			q.write(" order by id limit ")
		}
		value(4)
		if trouble {
			q.write(") i")
		}
	}).statement()
}

// byKey reads the first messages of each key, in their order, and which of them have failed.
func (r *Relay) byKey(streams []stream, each int) store.Statement {
	rows := make([][]any, len(streams))
	for i, s := range streams {
		rows[i] = []any{s.topic, s.key, int64(each)}
	}
	q := r.query()
	return q.each(rows, []string{"text", "text", "bigint"}, func(value columnOf) {
		q.write("select ", storedColumns, ", coalesce(", hasFailed, ", false) as blocked from once_outbox o where topic = ")
		value(0)
		q.write(" and KEY = ")
		value(1)
		q.write(" and seq > 0 order by topic, KEY, seq limit ")
		value(2)
	}).statement()
}

// due reads the failures of queues that are due within retryPoll, and the time of the database.
func (r *Relay) due(list []rangeOf) store.Statement {
	rows := make([][]any, len(list))
	for i, l := range list {
		rows[i] = []any{l.queue.topic.name, int64(l.queue.part.Number), int64(l.rows)}
	}
	q := r.query()
	return q.each(rows, []string{"text", "smallint", "bigint"}, func(value columnOf) {
		q.write("select part, id, topic, attempts, failed_at, next_at, NOW as now from once_outbox_failed")
		q.pick("", " force index (once_outbox_failed_queue)", " indexed by once_outbox_failed_queue").write(" where part = ")
		value(1)
		q.write(" and topic = ")
		value(0)
		q.write(" and next_at <= NOW").pick(" + interval '1 second'", " + 1000", " + 1000").write(" order by part, topic, next_at limit ")
		value(2)
	}).statement()
}

// byID reads single messages.
func (r *Relay) byID(ids []messageID) store.Statement {
	where, args := r.listed(ids)
	return r.text("select "+storedColumns+", false from once_outbox where "+where, args...)
}

func (r *Relay) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(r.db.Dialect(), query), Args: args}
}

// listed is a condition, as package dialect writes it: that a row has one of ids. ids is not empty.
func (r *Relay) listed(ids []messageID) (condition string, args []any) {
	var numbers, list strings.Builder
	for i, m := range ids {
		if i > 0 {
			numbers.WriteByte(',')
			list.WriteByte(',')
		}
		numbers.WriteString(strconv.Itoa(m.part))
		list.WriteString(strconv.FormatInt(m.id, 10))
	}
	if r.db.Dialect() == sqlplane.PostgreSQL {
		return "(part, id) in (select * from unnest(?::text::smallint[], ?::text::bigint[]))", []any{"{" + numbers.String() + "}", "{" + list.String() + "}"}
	}
	return "id in (" + list.String() + ")", nil
}

var errFull = errors.New("the batch is full")

// read returns the messages that s reads. cut reports that it has stopped because further messages would exceed
// the bound on bytes.
func (r *Relay) read(ctx context.Context, s store.Statement) (items []*item, cut bool, err error) {
	bytes := 0
	err = r.try(ctx, func(ctx context.Context) error {
		return r.db.Pool().Query(ctx, s, func(row sqlplane.Row) error {
			it := new(item)
			read, err := scanStored(wider{row, []any{&it.blocked}})
			if err != nil {
				return err
			}
			// A single message that exceeds the limit is read alone.
			if bytes += len(read.message.Payload) + len(read.headers); bytes > maxBytes && len(items) > 0 {
				return errFull
			}
			it.stored = read
			items = append(items, it)
			return nil
		})
	})
	if errors.Is(err, errFull) {
		return items, true, nil
	}
	return items, false, err
}

// findPredecessors marks the items whose previous message is still in the table, in any part: these items wait.
func (r *Relay) findPredecessors(ctx context.Context, items []*item) error {
	for some := range slices.Chunk(items, maxQueues) {
		rows := make([][]any, len(some))
		for i, it := range some {
			rows[i] = []any{it.message.Topic, it.message.Key, it.message.Seq - 1, int64(i)}
		}
		q := r.query()
		q.each(rows, []string{"text", "text", "bigint", "bigint"}, func(value columnOf) {
			q.write("select ")
			value(3)
			q.write(" as n from once_outbox where topic = ")
			value(0)
			q.write(" and KEY = ")
			value(1)
			q.write(" and seq = ")
			value(2)
			q.write(" limit 1")
		})
		err := r.try(ctx, func(ctx context.Context) error {
			return r.db.Pool().Query(ctx, q.statement(), func(row sqlplane.Row) error {
				var n int
				err := row.Scan(&n)
				some[n].outcome = outcomeWaits
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
