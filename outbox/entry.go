package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// State is the state of a message.
type State string

const (
	StateWaiting   State = "waiting"   // the message waits for its delivery
	StateBlocked   State = "blocked"   // an earlier message of its key is failing or stopped
	StateFailing   State = "failing"   // a delivery has failed, and another attempt follows
	StateStopped   State = "stopped"   // no attempt follows; the message waits for the decision of a person
	StateDelivered State = "delivered" // delivered, and kept for Config.RetainDelivered
)

// Entry is what an operator sees of a message in the outbox.
type Entry struct {
	message.Message // without Payload and Headers if List returns the Entry

	State        State
	Paused       bool // the topic or the key of the message is paused: see Box.Pause
	Encrypted    bool
	PayloadBytes int64 // the length of the payload as it is stored; encryption makes it longer

	OpScope, OpKey string // the scope and the key of the operation that has added the message, as in the record of the operation; OpScope is "" if no operation is known

	Attempts int       // how many attempts have failed since the last Resume
	FailedAt time.Time // when the first attempt failed, or the time of the last Resume, if that time is later
	Error    string    // the error of the last failed attempt
	NextAt   time.Time // with StateFailing: the time of the next attempt
	SentAt   time.Time // with StateDelivered: the time of the delivery
}

// Filter says which messages to list. The zero value lists all messages that are not delivered.
type Filter struct {
	State State  // default: all states except StateDelivered
	Topic string // default: all topics
	Key   string // a Filter with a Key must also have a Topic
	After int64  // the result next of the previous List
	Limit int    // default: 50
}

// ErrNotFound says that the outbox has no message with the given ID.
var ErrNotFound = errors.New("the message was delivered, or its transaction has not committed")

func notFound(id string) error {
	return fmt.Errorf("outbox: the table has no message with the ID %s: %w. Try: once outbox list", id, ErrNotFound)
}

// List returns messages, the oldest first. To get the next page, pass next as Filter.After; if next is 0, no
// more messages exist. List needs no Encrypter. On PostgreSQL, List reads the first messages of each of the
// parts into which the outbox is divided, unless the filter has a key. To find blocked messages, List reads all
// messages of each key that has a failed message.
func (b *Box[TX]) List(ctx context.Context, f Filter) (list []Entry, next int64, err error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	if f.Key != "" && f.Topic == "" {
		return nil, 0, errors.New("outbox: Filter.Key is set, but Filter.Topic is empty. Try: set Filter.Topic to the topic of the key")
	}
	query, args := "o.id > ?", []any{f.After}
	and := func(cond string, values ...any) {
		query += " and " + cond
		args = append(args, values...)
	}
	table := "once_outbox"
	switch f.State {
	case "":
	case StateWaiting:
		// A missing row in once_outbox_failed means that the message has not failed.
		and("f.id is null and not " + blocked)
	case StateBlocked:
		and("f.id is null and " + blocked)
	case StateFailing:
		and("f.next_at is not null")
	case StateStopped:
		and("f.id is not null and f.next_at is null")
	case StateDelivered:
		table = "once_outbox_sent"
	default:
		return nil, 0, fmt.Errorf("outbox: the state %q does not exist. Try: waiting, blocked, failing, stopped or delivered", f.State)
	}
	if f.Topic != "" {
		and("o.topic = ?", f.Topic)
	}
	if f.Key != "" {
		and("o.KEY = ? and o.seq > 0", f.Key) // seq > 0 lets the database use the index of topic, key and number
	}
	if f.Key != "" && table == "once_outbox_sent" {
		// An older release may have put the message into the part of earlierPartOf.
		and("o.part in (?, ?)", int64(partOf(f.Topic, f.Key)), int64(earlierPartOf(f.Topic, f.Key)))
	}
	if f.Key == "" && b.db.Dialect() == sqlplane.PostgreSQL {
		query, args = byPart(table, query, f.State), append(args, f.Limit+1, f.Limit+1)
	}
	list, rows, err := b.entries(ctx, listed, table, query+" order by o.id limit ?", append(args, f.Limit+1)...)
	// The statement reads one row more than the limit, to learn whether another page exists.
	if err == nil && len(list) > f.Limit {
		list, next = list[:f.Limit], rows[f.Limit-1].id
	}
	return list, next, err
}

// byPart returns the condition that a row is among the first rows of a table which meet the condition query.
// The limit is needed as two more arguments. The statement reads the first rows of each part, because
// PostgreSQL has no index of all rows by age. Failed and blocked messages are found by their failures, because
// failures are few.
func byPart(table, query string, state State) string {
	first := "select o.part, o.id from " + table + " o left join once_outbox_failed f on f.part = o.part and f.id = o.id where o.part = p.part and " + query + " order by o.id limit ?"
	switch state { //nolint:exhaustive // messages of the other states are found in the table itself
	case StateFailing, StateStopped:
		first = "select o.part, o.id from once_outbox_failed f cross join lateral (select * from " + table + " o where o.part = f.part and o.id = f.id limit 1) o where f.part = p.part and " + query + " order by f.id limit ?"
	case StateBlocked:
		first = "select o.part, o.id from (select distinct topic, key from once_outbox_failed where part = p.part and key <> '') k cross join lateral (select * from " + table +
			" o where o.topic = k.topic and o.key = k.key and o.seq is not null offset 0) o left join once_outbox_failed f on f.part = o.part and f.id = o.id where o.part = p.part and " + query + " order by o.id limit ?"
	}
	return "(o.part, o.id) in (select h.part, h.id from generate_series(0, " + strconv.Itoa(parts-1) + ") p(part) cross join lateral (" + first + ") h order by h.id limit ?)"
}

// mostOfKey is how many messages of a key Blocked returns at most.
const mostOfKey = 25

// Blocked returns one page of the blocked messages: messages that wait because an earlier message of the same
// key has failed. Blocked reads about as many rows for a page as the parameter most says. The messages are
// ordered by topic and key. The list has at most 25 messages of each key. The parameter after is the result
// next of the previous page; next is "" on the last page.
func (b *Box[TX]) Blocked(ctx context.Context, topic, after string, limit, most int) (list []Entry, next string, err error) {
	var last [2]string
	if after != "" && json.Unmarshal([]byte(after), &last) != nil {
		return nil, "", errors.New("outbox: the position of the page is not valid, because Blocked has not returned it. Try: begin with the first page")
	}
	keys, cut, err := b.failedKeys(ctx, topic, last, most/2)
	if err != nil {
		return nil, "", err
	}
	const atOnce = 20 // keys
	var found []failedKey
	for done := 0; done < len(keys) && len(found) < limit; done += atOnce {
		some := keys[done:min(done+atOnce, len(keys))]
		behind, err := b.behind(ctx, some)
		if err != nil {
			return nil, "", err
		}
		for _, m := range behind {
			if len(found) >= limit && m.key != found[len(found)-1].key { // the page ends only between two keys, because the next page begins after a key
				last, cut = found[len(found)-1].key, true
				break
			}
			found = append(found, m)
			last = m.key
		}
		if len(found) < limit {
			last = some[len(some)-1].key
		} else if done+len(some) < len(keys) {
			cut = true
		}
	}
	if cut {
		text, err := json.Marshal(last)
		if err != nil {
			return nil, "", fmt.Errorf("outbox: a key of topic %q cannot be encoded as JSON: %w", last[0], err)
		}
		next = string(text)
	}
	if len(found) == 0 {
		return nil, next, nil
	}
	var args []any
	for _, m := range found {
		args = append(args, m.part, m.id)
	}
	where := "f.id is null and " + blocked + " and (o.part = ? and o.id = ?" + strings.Repeat(" or o.part = ? and o.id = ?", len(found)-1) + ") order by o.topic, o.KEY, o.id"
	list, _, err = b.entries(ctx, listed, "once_outbox", where, args...)
	return list, next, err
}

// failedKey is a message that has failed, or a message that waits for it, with topic and key.
type failedKey struct {
	key      [2]string
	part, id int64
}

// failedKeys returns keys after the given one, each with its first failed message. It reads at most most
// failures. The result cut reports that more failures exist.
func (b *Box[TX]) failedKeys(ctx context.Context, topic string, after [2]string, most int) (keys []failedKey, cut bool, err error) {
	where, args := "topic > ? or topic = ? and KEY > ?", []any{after[0], after[0], after[1]}
	if b.db.Dialect() != sqlplane.MySQL { // MySQL would read all earlier rows to compare rows
		where, args = "(topic, KEY) > (?, ?)", []any{after[0], after[1]}
	}
	if topic != "" {
		where, args = "topic = ? and KEY > ?", []any{topic, after[1]}
	}
	read := 0
	query := "select topic, KEY, part, id from once_outbox_failed where KEY <> '' and (" + where + ") order by topic, KEY limit ?"
	err = b.db.Pool().Query(ctx, b.statement(query, append(args, int64(most))...), func(row sqlplane.Row) error {
		var f failedKey
		if err := row.Scan(&f.key[0], &f.key[1], &f.part, &f.id); err != nil {
			return err
		}
		read++
		if n := len(keys); n > 0 && keys[n-1].key == f.key {
			keys[n-1].id = min(keys[n-1].id, f.id)
			return nil
		}
		keys = append(keys, f)
		return nil
	})
	if read >= most && len(keys) > 1 { // the next page reads the last key again, because some of its failures were not read
		return keys[:len(keys)-1], true, err
	}
	return keys, read >= most, err
}

// behind returns, for each key, the first messages that wait for the failed message of the key, in the order of
// keys.
func (b *Box[TX]) behind(ctx context.Context, keys []failedKey) (list []failedKey, err error) {
	const one = "select ?, x.part, x.id from (select o.part, o.id from once_outbox o where o.topic = ? and o.KEY = ? and o.seq > 0 and o.id > ? order by o.topic, o.KEY, o.seq limit ?) x" +
		" where (select 1 from once_outbox_failed f where f.part = x.part and f.id = x.id limit 1) is null"
	var args []any
	for i, k := range keys {
		args = append(args, int64(i), k.key[0], k.key[1], k.id, int64(mostOfKey))
	}
	err = b.db.Pool().Query(ctx, b.statement(union(b.db.Dialect(), one, len(keys)), args...), func(row sqlplane.Row) error {
		var at int64
		var m failedKey
		err := row.Scan(&at, &m.part, &m.id)
		m.key = keys[at].key
		list = append(list, m)
		return err
	})
	slices.SortFunc(list, func(a, b failedKey) int {
		return cmp.Or(cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.key[1], b.key[1]), cmp.Compare(a.id, b.id))
	})
	return list, err
}

// Show returns the message with the given ID. Show also finds delivered messages that are kept. If the
// Payload and Headers of the message cannot be decrypted, Show returns an error, and also an Entry without
// Payload and Headers. Show uses an index to find the message.
func (b *Box[TX]) Show(ctx context.Context, id string) (Entry, error) {
	e, s, err := b.find(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	m, err := s.open(b.cfg.Encrypter)
	e.Payload, e.Headers = m.Payload, m.Headers
	return e, err
}

// find returns the message with an ID, as an entry and as a row.
func (b *Box[TX]) find(ctx context.Context, id string) (Entry, stored, error) {
	id = strings.ToLower(id)
	if !isUUID(id) {
		return Entry{}, stored{}, fmt.Errorf("outbox: %q is not the ID of a message. Try: a UUID that once outbox list has shown", printable.Short(id))
	}
	for _, table := range []string{"once_outbox", "once_outbox_sent", "once_outbox"} { // once_outbox again, because a Resend may move the message between the two reads
		list, rows, err := b.entries(ctx, shown, table, "o.event_id = ? limit 1", id) // no order by: MySQL would read all rows in the order of their ids
		if err != nil {
			return Entry{}, stored{}, err
		}
		if len(list) > 0 {
			return list[0], rows[0], nil
		}
	}
	return Entry{}, stored{}, notFound(id)
}

// mostByID is how many messages ByID returns at most.
const mostByID = current.MaxEvents

// ByID returns the messages with the given IDs, without their payloads and headers. ByID finds waiting
// messages, and delivered messages that are kept. ByID accepts at most 64 IDs, and looks up each ID by an
// index. If an ID has no message in the result, the message was delivered and deleted, or its transaction
// has not committed.
func (b *Box[TX]) ByID(ctx context.Context, ids ...string) (list []Entry, err error) {
	var args []any
	for _, id := range ids[:min(len(ids), mostByID)] {
		// The row of an ID that is not a UUID cannot exist, and PostgreSQL would refuse the statement.
		if id = strings.ToLower(id); isUUID(id) {
			args = append(args, id)
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	for _, table := range []string{"once_outbox", "once_outbox_sent"} {
		some, _, err := b.entries(ctx, listed, table, "o.event_id in (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// The columns headers and payload of entries: List leaves them out, and Show reads them.
const (
	listed = "null, null"
	shown  = "o.headers, o.payload"
)

// blocked is the condition of [StateBlocked].
const blocked = "exists (select 1 from once_outbox_failed e where o.KEY <> '' and e.topic = o.topic and e.KEY = o.KEY and e.id < o.id)"

// entries reads rows of once_outbox or once_outbox_sent.
func (b *Box[TX]) entries(ctx context.Context, body, table, where string, args ...any) (list []Entry, rows []stored, err error) {
	sentAt := "null"
	if table == "once_outbox_sent" {
		sentAt = "o.sent_at"
	}
	query := "select o.part, o.id, o.topic, o.KEY, o.seq, o.event_id, o.event_type, o.source, " + body + `, o.encrypted, o.trace, o.created_at,
  o.op_scope, o.op_key, length(o.payload), f.attempts, f.next_at, f.failed_at, f.error, ` + sentAt + `,
  exists (select 1 from once_outbox_paused p where p.topic = o.topic and p.KEY in ('', o.KEY)), ` + blocked + `
 from ` + table + " o left join once_outbox_failed f on f.part = o.part and f.id = o.id where " + where
	err = b.db.Pool().Query(ctx, b.statement(query, args...), func(row sqlplane.Row) error {
		e, s, err := scanEntry(row)
		list, rows = append(list, e), append(rows, s)
		return err
	})
	return list, rows, err
}

func scanEntry(row sqlplane.Row) (e Entry, s stored, err error) {
	var attempts *int64
	var failure *string
	var blocked bool
	s, err = scanStored(wider{row, []any{&e.OpScope, &e.OpKey, &e.PayloadBytes, &attempts, (*dialect.Time)(&e.NextAt), (*dialect.Time)(&e.FailedAt), &failure, (*dialect.Time)(&e.SentAt), &e.Paused, &blocked}})
	e.Message, e.State, e.Encrypted = s.message, StateWaiting, s.encrypted
	e.Payload = nil // not decrypted
	if attempts != nil && failure != nil {
		e.Attempts, e.Error = int(*attempts), *failure
	}
	switch {
	case !e.SentAt.IsZero():
		e.State = StateDelivered
	case attempts != nil && e.NextAt.IsZero():
		e.State = StateStopped
	case attempts != nil:
		e.State = StateFailing
	case blocked:
		e.State = StateBlocked
	}
	return e, s, err
}

// wider is a row that has more columns than its reader reads. The additional columns are the last ones.
type wider struct {
	sqlplane.Row
	more []any
}

// Scan implements [sqlplane.Row].
func (w wider) Scan(dest ...any) error { return w.Row.Scan(append(dest, w.more...)...) }

// statement returns a query in the dialect of the database, with its arguments.
func (b *Box[TX]) statement(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(b.db.Dialect(), query), Args: args}
}
