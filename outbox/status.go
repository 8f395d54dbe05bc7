package outbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Wait is a reason why messages of a topic wait. New reasons may be added.
type Wait string

const (
	WaitPaused  Wait = "paused"  // a person has paused the topic, or a key of the topic
	WaitDown    Wait = "down"    // the destination of the topic cannot be reached
	WaitHanging Wait = "hanging" // the destination of the topic does not answer
	WaitFull    Wait = "full"    // so many messages of the topic are being tried again that the relay reads no other messages of the topic
	WaitRate    Wait = "rate"    // more messages wait than TopicConfig.Rate allows to deliver
	WaitFailing Wait = "failing" // some messages of the topic are tried again, or wait for a person; later messages of their keys wait
)

// Waits returns all reasons why messages of a topic can wait, in a fixed order: reasons that concern a whole
// topic come first.
func Waits() []Wait {
	return []Wait{WaitPaused, WaitDown, WaitHanging, WaitFull, WaitRate, WaitFailing}
}

// TopicWait is one reason why messages of a topic wait.
type TopicWait struct {
	For      Wait
	Key      string    // with WaitPaused and WaitFailing: one of the waiting keys; "" if the whole topic is paused, or if the messages have no key
	Since    time.Time // the beginning of the wait, by the clock of the database
	Reason   string    // the reason of the pause, or the error
	Node     string    // the relay that reports the wait; "" with WaitPaused and WaitFailing
	Messages int64     // with WaitFailing: the number of failed messages, of which at most 500 are counted; with WaitPaused: the number of paused keys
	More     bool      // the real number may be larger than Messages
	Stopped  int64     // with WaitFailing: how many of the messages that are counted in Messages wait for a person
}

// holdsTopic reports whether all messages of the topic wait.
func (w TopicWait) holdsTopic() bool {
	return w.For != WaitFailing && (w.For != WaitPaused || w.Key == "")
}

// Topic is the state of a topic.
type Topic struct {
	Name   string
	Oldest time.Time   // when the oldest waiting message was added; zero if no message waits
	Ready  time.Time   // when the oldest message was added that is neither paused nor blocked; zero if no such message waits
	Waits  []TopicWait // why messages of the topic wait, in the order of the function [Waits]; empty if the messages of the topic are being delivered
	Now    time.Time   // the time of the database when the state was read
}

// Bounds of the reads of Topics.
const (
	mostQueues  = 50_000 // topics and parts: one row of an index for each
	mostFailing = 1000   // topics
	mostLooked  = 100    // failing topics that are read in detail, and four times as many of their queues
	mostFailed  = 500    // failures of each
	mostHead    = 200    // messages of each queue
	mostNoted   = 10_000 // topics that relays have reported
)

// Topics returns the topics with waiting messages, and the paused topics. For each topic in the result, Topics
// returns the time of the oldest message, and the reasons why messages wait. Topics reads one row for each topic
// in each of the parts into which the outbox is divided, and a few more rows for failing topics. How many rows
// Topics reads does not depend on the number of waiting messages.
func (b *Box[TX]) Topics(ctx context.Context) ([]Topic, error) {
	list, _, err := readTopics(ctx, b.db, "", allTopics)
	return list, err
}

// TopicsUpTo returns one page of the result of Topics, ordered by name. The page begins after the topic with
// the name after, and has at least one topic. TopicsUpTo reads about as many rows as the parameter most says.
// The result next is the argument after of the next page, or "" on the last page. In the result of
// TopicsUpTo, [Topic].Ready may be unknown for topics with paused or blocked messages, and the number of
// failed messages may be unknown for failing topics.
func (b *Box[TX]) TopicsUpTo(ctx context.Context, after string, most int) (list []Topic, next string, err error) {
	const looked, failed = 5, 50
	rows := max(most-looked*failed, 100)
	return readTopics(ctx, b.db, after, topicBounds{queues: max(rows/2, parts+1), pauses: rows / 5, noted: rows / 5, failing: rows / 10, looked: looked, failed: failed})
}

// topicBounds is how many rows are read for each kind of wait.
type topicBounds struct{ queues, pauses, noted, failing, looked, failed, heads int }

var allTopics = topicBounds{queues: mostQueues, pauses: mostQueues, noted: mostNoted, failing: mostFailing, looked: mostLooked, failed: mostFailed, heads: 4 * mostLooked}

func readTopics(ctx context.Context, db sqlplane.Database, after string, most topicBounds) (list []Topic, next string, err error) {
	r := topicReader{db: db, after: after, most: most, byName: map[string]*Topic{}, queues: map[string][]int64{}}
	for _, read := range [...]func(context.Context) error{r.readQueues, r.readPauses, r.readWaits, r.readFailing, r.readHeads} {
		if err := read(ctx); err != nil {
			return nil, "", err
		}
	}
	next = r.cut()
	list = make([]Topic, 0, len(r.byName))
	for _, t := range r.byName {
		t.Now = r.now
		slices.SortStableFunc(t.Waits, func(a, b TopicWait) int {
			return cmp.Or(cmp.Compare(slices.Index(Waits(), a.For), slices.Index(Waits(), b.For)), cmp.Compare(a.Key, b.Key), a.Since.Compare(b.Since))
		})
		if slices.ContainsFunc(t.Waits, TopicWait.holdsTopic) {
			t.Ready = time.Time{}
		}
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
	return list, next, nil
}

// cut removes the topics whose rows were not all read because a bound was reached. It returns the last
// remaining topic. If no topic would remain, it keeps the first one, incomplete.
func (r *topicReader) cut() (last string) {
	if r.until == "" {
		return ""
	}
	first := r.until
	for name := range r.byName {
		first = min(first, name)
	}
	for name := range r.byName {
		if name >= r.until && name != first {
			delete(r.byName, name)
		} else {
			last = max(last, name)
		}
	}
	return cmp.Or(last, r.until)
}

// end records that a bound of rows may have cut a list of topics, which is ordered, at this topic.
func (r *topicReader) end(rows, most int, name string) {
	// The topics of all reads must be complete, so the earliest cut counts.
	if rows == most && (r.until == "" || name < r.until) {
		r.until = name
	}
}

// behind returns the lowest possible name after a topic.
func behind(topic string) string { return topic + "\x00" }

// topicReader collects the state of topics.
type topicReader struct {
	db      sqlplane.Database
	after   string // topics behind it are read
	until   string // rows of this topic and later ones were not all read; "" if all were read
	most    topicBounds
	now     time.Time
	byName  map[string]*Topic
	queues  map[string][]int64 // parts in which a topic has messages
	partial []string           // topics with some held back messages
}

func (r *topicReader) topic(name string) *Topic {
	t := r.byName[name]
	if t == nil {
		t = &Topic{Name: name}
		r.byName[name] = t
	}
	return t
}

func (r *topicReader) query(ctx context.Context, query string, each func(sqlplane.Row) error, args ...any) error {
	return r.db.Pool().Query(ctx, store.Statement{SQL: dialect.Text(r.db.Dialect(), query), Args: args}, each)
}

// firstOfQueues reads the first message of each topic in each part, by a loose scan of the index once_outbox_queue: it goes from one
// topic and part to the next one, and passes over the other messages.
var firstOfQueues = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `with recursive q as ((select topic, part, id, created_at from once_outbox where topic > ? order by topic, part, id limit 1)
 union all select n.* from q cross join lateral (select o.topic, o.part, o.id, o.created_at from once_outbox o where (o.topic, o.part) > (q.topic, q.part)
  order by o.topic, o.part, o.id limit 1) n)
 select topic, part, created_at, NOW from q limit ?`,
	sqlplane.SQLite: `with recursive q(id) as (select (select id from once_outbox where topic > ? order by topic, part, id limit 1)
 union all select coalesce((select o.id from once_outbox o where o.topic = c.topic and o.part > c.part order by o.part, o.id limit 1),
  (select o.id from once_outbox o where o.topic > c.topic order by o.topic, o.part, o.id limit 1)) from q join once_outbox c on c.id = q.id)
 select c.topic, c.part, c.created_at, NOW from q join once_outbox c on c.id = q.id limit ?`,
	sqlplane.MySQL: `select o.topic, o.part, o.created_at, NOW from (select topic, part, min(id) id from once_outbox where topic > ? group by topic, part order by topic, part limit ?) q
 straight_join once_outbox o on o.part = q.part and o.id = q.id order by o.topic, o.part`,
}

func (r *topicReader) readQueues(ctx context.Context) error {
	rows := 0
	return r.query(ctx, firstOfQueues[r.db.Dialect()], func(row sqlplane.Row) error {
		var name string
		var part int64
		var added time.Time
		if err := row.Scan(&name, &part, (*dialect.Time)(&added), (*dialect.Time)(&r.now)); err != nil {
			return err
		}
		t := r.topic(name)
		t.Oldest, t.Ready = earlier(t.Oldest, added), earlier(t.Ready, added)
		r.queues[name] = append(r.queues[name], part)
		rows++
		r.end(rows, r.most.queues, name)
		return nil
	}, r.after, int64(r.most.queues))
}

// earlier returns the earlier one of two times. A zero time is no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (r *topicReader) readPauses(ctx context.Context) error {
	rows := 0
	return r.query(ctx, "select topic, KEY, reason, paused_at, NOW from once_outbox_paused where topic > ? order by topic, KEY limit ?", func(row sqlplane.Row) error {
		w := TopicWait{For: WaitPaused, Messages: 1}
		var name string
		if err := row.Scan(&name, &w.Key, &w.Reason, (*dialect.Time)(&w.Since), (*dialect.Time)(&r.now)); err != nil {
			return err
		}
		t := r.topic(name)
		rows++
		r.end(rows, r.most.pauses, behind(name))
		w.More = w.Key != "" && rows >= r.most.pauses
		if w.Key != "" {
			r.isPartial(name)
			if i := slices.IndexFunc(t.Waits, func(other TopicWait) bool { return other.Key != "" }); i >= 0 { // one wait counts all paused keys of the topic
				t.Waits[i].Messages++
				t.Waits[i].More = w.More
				return nil
			}
		}
		t.Waits = append(t.Waits, w)
		return nil
	}, r.after, int64(r.most.pauses))
}

func (r *topicReader) isPartial(name string) {
	if !slices.Contains(r.partial, name) {
		r.partial = append(r.partial, name)
	}
}

// readWaits reads the waits that live relays have stored: see waitWriter.
func (r *topicReader) readWaits(ctx context.Context) error {
	rows := 0
	return r.query(ctx, `select w.topic, w.reason, w.since, w.error, w.node, NOW from once_outbox_wait w
 where w.topic > ? and (select 1 from once_hold_node n where n.work = 'outbox' and n.node = w.node and n.expires > NOW limit 1) is not null order by w.topic, w.node limit ?`, func(row sqlplane.Row) error {
		var w TopicWait
		var name string
		if err := row.Scan(&name, (*string)(&w.For), (*dialect.Time)(&w.Since), &w.Reason, &w.Node, (*dialect.Time)(&r.now)); err != nil {
			return err
		}
		t := r.topic(name)
		rows++
		r.end(rows, r.most.noted, name)
		if i := slices.IndexFunc(t.Waits, func(other TopicWait) bool { return other.For == w.For }); i >= 0 { // several relays report the same: the earliest counts
			if w.Since.Before(t.Waits[i].Since) {
				t.Waits[i] = w
			}
			return nil
		}
		t.Waits = append(t.Waits, w)
		return nil
	}, r.after, int64(r.most.noted))
}

// failingTopics are the topics of failures, by a loose index scan of once_outbox_failed_key.
var failingTopics = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: looseFailing,
	sqlplane.SQLite:     looseFailing,
	sqlplane.MySQL:      "select distinct topic from once_outbox_failed where topic > ? order by topic limit ?",
}

const looseFailing = `with recursive q(topic) as (select (select topic from once_outbox_failed where topic > ? order by topic limit 1)
 union all select (select f.topic from once_outbox_failed f where f.topic > q.topic order by f.topic limit 1) from q where q.topic is not null)
 select topic from q where topic is not null limit ?`

func (r *topicReader) readFailing(ctx context.Context) error {
	var names []string
	err := r.query(ctx, failingTopics[r.db.Dialect()], func(row sqlplane.Row) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		r.end(len(names), r.most.failing, behind(name))
		return err
	}, r.after, int64(r.most.failing))
	if err != nil || len(names) == 0 {
		return err
	}
	for i, name := range names {
		if i >= r.most.looked { // only that it fails, without numbers
			t := r.topic(name)
			t.Waits, t.Ready = append(t.Waits, TopicWait{For: WaitFailing}), time.Time{}
		}
	}
	names = names[:min(len(names), r.most.looked)]
	const one = `select ?, count(*), count(next_at), min(failed_at), min(KEY), min(error), NOW from
 (select next_at, failed_at, KEY, error from once_outbox_failed where topic = ? order by topic, KEY limit ?) f`
	var args []any
	for i, name := range names {
		args = append(args, int64(i), name, int64(r.most.failed))
	}
	return r.query(ctx, union(r.db.Dialect(), one, len(names)), func(row sqlplane.Row) error {
		w := TopicWait{For: WaitFailing}
		var at, tried int64
		var key, failure *string
		if err := row.Scan(&at, &w.Messages, &tried, (*dialect.Time)(&w.Since), &key, &failure, (*dialect.Time)(&r.now)); err != nil || w.Messages == 0 {
			return err
		}
		w.Stopped, w.Key, w.Reason = w.Messages-tried, *key, *failure
		w.More = w.Messages >= int64(r.most.failed)
		t := r.topic(names[at])
		t.Waits = append(t.Waits, w)
		r.isPartial(names[at])
		return nil
	}, args...)
}

// readHeads reads, for topics with some held back messages, the oldest message that nothing holds back. It looks at the first messages of each of
// their queues.
func (r *topicReader) readHeads(ctx context.Context) error {
	const one = `select ?, x.created_at from (select o.created_at from (select part, id, topic, KEY, created_at from once_outbox where topic = ? and part = ? order by topic, part, id limit ?) o
 where (select 1 from once_outbox_failed f where f.part = o.part and f.id = o.id limit 1) is null
  and (o.KEY = '' or (select 1 from once_outbox_failed f where f.topic = o.topic and f.KEY = o.KEY and f.id < o.id limit 1) is null
   and (select 1 from once_outbox_paused p where p.topic = o.topic and p.KEY = o.KEY limit 1) is null)
 order by o.id limit 1) x`
	var names []string
	var args []any
	for _, name := range r.partial {
		r.byName[name].Ready = time.Time{}
		for _, part := range r.queues[name] {
			if len(names) < r.most.heads {
				args = append(args, int64(len(names)), name, part, int64(mostHead))
				names = append(names, name)
			}
		}
	}
	const atOnce = 100 // queues
	for from := 0; from < len(names); from += atOnce {
		n := min(atOnce, len(names)-from)
		err := r.query(ctx, union(r.db.Dialect(), one, n), func(row sqlplane.Row) error {
			var at int64
			var added time.Time
			if err := row.Scan(&at, (*dialect.Time)(&added)); err != nil {
				return err
			}
			t := r.byName[names[at]]
			t.Ready = earlier(t.Ready, added)
			return nil
		}, args[4*from:4*(from+n)]...)
		if err != nil {
			return err
		}
	}
	return nil
}

// union is a statement n times, whose first argument is a number.
func union(d sqlplane.Dialect, one string, n int) string {
	if d == sqlplane.PostgreSQL {
		one = strings.Replace(one, "select ?,", "select ?::bigint,", 1)
	}
	return one + strings.Repeat("\n union all "+one, n-1)
}
