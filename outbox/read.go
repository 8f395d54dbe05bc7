package outbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// item is a message of a batch.
type item struct {
	stored

	part    *part
	attempt int
	outcome outcome
	err     error // of outcomeFailed
}

// outcome is what has become of a message of a batch.
type outcome uint8

const (
	outcomeLeft      outcome = iota // nothing is known: it is read again
	outcomeWaits                    // for something that is known, and that will bring it back
	outcomeDelivered                // the destination has confirmed it
	outcomeFailed
)

// messageID names a message in the tables.
type messageID struct {
	part int
	id   int64
}

// maxBytes bounds the payloads and headers of a batch: one of more bytes has one message.
const maxBytes = 8 << 20

// query is a statement as it is being written.
type query struct {
	dialect store.Dialect
	text    strings.Builder
	args    []any
}

func (r *Relay) query() *query { return &query{dialect: r.db.Dialect()} }

func (q *query) write(text ...string) *query {
	for _, t := range text {
		q.text.WriteString(t)
	}
	return q
}

// arg writes an argument.
func (q *query) arg(v any) *query {
	q.args = append(q.args, v)
	if q.dialect == store.PostgreSQL {
		return q.write("$", strconv.Itoa(len(q.args)))
	}
	return q.write("?")
}

// number writes a number: on PostgreSQL as an argument, because statements are prepared by their text,
// and elsewhere as it is, because preparing takes a round trip.
func (q *query) number(n int64) *query {
	if q.dialect == store.PostgreSQL {
		return q.arg(n)
	}
	return q.write(strconv.FormatInt(n, 10))
}

// columns writes the columns that scanStored reads.
func (q *query) columns() *query { return q.write(dialect.Text(q.dialect, storedColumns)) }

func (q *query) statement() store.Statement {
	return store.Statement{SQL: q.text.String(), Args: q.args}
}

// inParts writes a select of the first messages of each part, with bounds that the parts have and a condition that
// is told what to compare with. PostgreSQL plans one select for all of them; the others have no LATERAL.
func (q *query) inParts(from []*part, each int, bounds func(*part) []int64, where func(bounds []string)) {
	if q.dialect != store.PostgreSQL {
		for i, p := range from {
			if i > 0 {
				q.write(" union all ")
			}
			q.write("select * from (select ").columns().write(" from once_outbox where part = ", strconv.Itoa(p.Number))
			where(texts(bounds(p)))
			q.write(" order by id limit ").number(int64(each)).write(") m", strconv.Itoa(i))
		}
		return
	}
	numbers := make([]string, len(from))
	names := make([]string, len(bounds(from[0])))
	values := make([][]string, len(names))
	for i, p := range from {
		numbers[i] = strconv.Itoa(p.Number)
		for b, text := range texts(bounds(p)) {
			values[b] = append(values[b], text)
		}
	}
	q.write("select m.* from unnest(").arg("{" + strings.Join(numbers, ",") + "}").write("::text::smallint[]")
	for b, list := range values {
		q.write(", ").arg("{" + strings.Join(list, ",") + "}").write("::text::bigint[]")
		names[b] = "x.bound" + strconv.Itoa(b)
	}
	q.write(") x(number")
	for b := range names {
		q.write(", bound", strconv.Itoa(b))
	}
	q.write(") cross join lateral (select ").columns().write(" from once_outbox where part = x.number")
	where(names)
	q.write(" order by id limit ").number(int64(each)).write(") m")
}

func texts(numbers []int64) (list []string) {
	for _, n := range numbers {
		list = append(list, strconv.FormatInt(n, 10))
	}
	return list
}

// above reads the first messages above the marks: in each part one range of the primary key.
func (r *Relay) above(from []*part, each, limit int) store.Statement {
	q := r.query()
	q.inParts(from, each, func(p *part) []int64 { return []int64{p.mark} }, func(bounds []string) { q.write(" and id > ", bounds[0]) })
	return q.write(" limit ").number(int64(limit)).statement()
}

// below reads the first messages up to the marks that wait for nothing: all of them, or those that the marks have
// passed lately. Those of busy topics are left out.
func (r *Relay) below(from []*part, all bool, busy []any, each, limit int) store.Statement {
	q := r.query()
	free := dialect.Text(q.dialect, ` and not exists (select 1 from once_outbox_failed f where f.part = once_outbox.part and f.id = once_outbox.id)
 and not exists (select 1 from once_outbox_failed f where f.topic = once_outbox.topic and f.KEY = once_outbox.KEY and once_outbox.KEY <> '')
 and not exists (select 1 from once_outbox_paused p where p.topic = once_outbox.topic and (p.KEY = '' or p.KEY = once_outbox.KEY))`)
	q.inParts(from, each, func(p *part) []int64 { return []int64{p.swept(all), p.mark} }, func(bounds []string) {
		q.write(" and id > ", bounds[0], " and id <= ", bounds[1], free)
		for _, topic := range busy {
			q.write(" and topic <> ").arg(topic)
		}
	})
	return q.write(" limit ").number(int64(limit)).statement()
}

// byKey reads the first messages of each key, in their order.
func (r *Relay) byKey(streams []stream, each int) store.Statement {
	q := r.query()
	key := dialect.Text(q.dialect, " and KEY = ")
	for i, s := range streams {
		if i > 0 {
			q.write(" union all ")
		}
		q.write("select * from (select ").columns().write(" from once_outbox where topic = ").arg(s.topic).write(key).arg(s.key)
		q.write(" and seq > 0 order by seq limit ").number(int64(each)).write(") m", strconv.Itoa(i))
	}
	return q.statement()
}

// byID reads single messages.
func (r *Relay) byID(ids []messageID) store.Statement {
	where, args := r.listed(ids)
	return r.text("select "+storedColumns+" from once_outbox where "+where, args...)
}

func (r *Relay) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(r.db.Dialect(), query), Args: args}
}

// listed is a condition, as package dialect writes it: that a row is one of ids. There is at least one.
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
	if r.db.Dialect() == store.PostgreSQL {
		return "(part, id) in (select * from unnest(?::text::smallint[], ?::text::bigint[]))", []any{"{" + numbers.String() + "}", "{" + list.String() + "}"}
	}
	return "id in (" + list.String() + ")", nil
}

var errFull = errors.New("the batch is full")

// read returns the messages that s reads. cut says that
// there are more, for which there was no room.
func (l *lane) read(ctx context.Context, s store.Statement) (items []*item, cut bool, err error) {
	bytes := 0
	err = l.relay.try(ctx, func(ctx context.Context) error {
		return l.relay.db.Pool().Query(ctx, s, func(row store.Row) error {
			read, err := scanStored(row)
			if err != nil {
				return err
			}
			if bytes += len(read.message.Payload) + len(read.headers); bytes > maxBytes && len(items) > 0 {
				return errFull
			}
			if p := l.parts[read.part]; p != nil {
				items = append(items, &item{stored: read, part: p})
			}
			return nil
		})
	})
	if errors.Is(err, errFull) {
		cut, err = true, nil
		l.limit = max(1, len(items)) // what was read for nothing is read once
	} else if l.limit < l.relay.cfg.Batch && bytes < maxBytes/2 {
		l.limit = min(2*l.limit, l.relay.cfg.Batch)
	}
	return items, cut, err
}

// findPredecessors notes the keys of items whose previous message is still there.
func (l *lane) findPredecessors(ctx context.Context, items []*item) error {
	of := map[stream]*part{}
	for list := range slices.Chunk(items, 100) {
		q := l.relay.query()
		key := dialect.Text(q.dialect, " and KEY = ")
		q.write(dialect.Text(q.dialect, "select topic, KEY from once_outbox where "))
		for i, it := range list {
			if i > 0 {
				q.write(" or ")
			}
			m := &it.message
			of[streamOf(m)] = it.part
			q.write("(topic = ").arg(m.Topic).write(key).arg(m.Key).write(" and seq = ").arg(m.Seq - 1).write(")")
		}
		err := l.relay.try(ctx, func(ctx context.Context) error {
			return l.relay.db.Pool().Query(ctx, q.statement(), func(row store.Row) error {
				var s stream
				err := row.Scan(&s.topic, &s.key)
				if p := of[s]; err == nil && p != nil {
					p.behind[s] = struct{}{}
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reload reads what has failed and what is paused, once a second and when a part is new. Persons and other processes change both.
func (l *lane) reload(ctx context.Context) error {
	began := time.Now()
	if began.Before(l.reloadAt) && !slices.ContainsFunc(l.order, func(p *part) bool { return !p.loaded }) {
		return nil
	}
	failures, err := l.readFailures(ctx)
	if err != nil {
		return err
	}
	paused := map[stream]struct{}{}
	err = l.relay.try(ctx, func(ctx context.Context) error {
		return l.relay.db.Pool().Query(ctx, l.relay.text("select topic, KEY from once_outbox_paused"), func(row store.Row) error {
			var s stream
			err := row.Scan(&s.topic, &s.key)
			paused[s] = struct{}{}
			return err
		})
	})
	if err != nil {
		return err
	}
	if !maps.Equal(paused, l.paused) {
		l.paused, l.sweepAt = paused, time.Time{}
	}
	for _, p := range l.order {
		for _, known := range [...]map[int64]*failure{p.failing, p.stopped} {
			for id, f := range known {
				if failures[p.Number][id] == nil { // skipped, for example
					p.free(f)
					l.sweepAt = time.Time{}
				}
			}
		}
		for _, f := range failures[p.Number] {
			p.fail(f)
		}
		p.loaded = true
	}
	l.reloadAt = time.Now().Add(max(reloads, share*time.Since(began)))
	return nil
}

// readFailures returns the failures of all parts of the lane.
func (l *lane) readFailures(ctx context.Context) (map[int]map[int64]*failure, error) {
	q := l.relay.query()
	q.write(dialect.Text(q.dialect, "select part, id, topic, KEY, attempts, failed_at, next_at, NOW from once_outbox_failed where part in ("))
	failures := map[int]map[int64]*failure{}
	for i, p := range l.order {
		if i > 0 {
			q.write(", ")
		}
		q.number(int64(p.Number))
		failures[p.Number] = map[int64]*failure{}
	}
	q.write(")")
	err := l.relay.try(ctx, func(ctx context.Context) error {
		return l.relay.db.Pool().Query(ctx, q.statement(), func(row store.Row) error {
			var number int
			var since, next, now dialect.Time
			f := new(failure)
			if err := row.Scan(&number, &f.id, &f.stream.topic, &f.stream.key, &f.attempts, &since, &next, &now); err != nil {
				return err
			}
			local := func(t dialect.Time) time.Time { return time.Now().Add(time.Time(t).Sub(time.Time(now))) }
			f.since = local(since)
			if !time.Time(next).IsZero() {
				f.due = local(next)
			}
			failures[number][f.id] = f
			return nil
		})
	})
	return failures, err
}
