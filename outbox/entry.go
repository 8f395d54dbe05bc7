package outbox

import (
	"context"
	"errors"
	"fmt"
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

// State is where a message stands.
type State string

const (
	StateWaiting   State = "waiting"   // for its delivery
	StateBlocked   State = "blocked"   // an earlier message of its key is failing or stopped
	StateFailing   State = "failing"   // a delivery has failed, and it is tried again
	StateStopped   State = "stopped"   // it is given up, and waits for a person
	StateDelivered State = "delivered" // and kept: see Config.RetainDelivered
)

// Entry is a message as operators see it.
type Entry struct {
	message.Message // List leaves Payload and Headers out

	State        State
	Paused       bool // the topic or the key: see Box.Pause
	Encrypted    bool
	PayloadBytes int64 // as it is stored: encryption makes it longer

	OpScope, OpKey string // of the operation that has added it, as its record has them; "": none is known

	Attempts int       // that have failed, since the last Resume
	FailedAt time.Time // the first of them; the last Resume, if there was one
	Error    string    // of the last failure
	NextAt   time.Time // StateFailing: of the next one
	SentAt   time.Time // StateDelivered
}

// Filter says which messages to list. The zero value is all that are not delivered.
type Filter struct {
	State State  // default: all but StateDelivered
	Topic string // default: all
	Key   string // needs Topic
	After int64  // what List has returned as next
	Limit int    // default: 50
}

// ErrNotFound says that no message with an ID is there.
var ErrNotFound = errors.New("it was delivered, or its transaction has not committed")

func notFound(id string) error {
	return fmt.Errorf("outbox: message %s is not there: %w. Try: once outbox list", id, ErrNotFound)
}

// List returns messages, the oldest first, and how to ask for those that follow: 0 if there are
// none. It needs no Encrypter. On PostgreSQL it reads the first messages of each part, unless they
// are of one key. To find what is blocked it reads all messages of the keys that have failed.
func (b *Box[TX]) List(ctx context.Context, f Filter) (list []Entry, next int64, err error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	if f.Key != "" && f.Topic == "" {
		return nil, 0, errors.New("outbox: Filter.Key without Filter.Topic. Try: the topic of the key")
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
		return nil, 0, fmt.Errorf("outbox: there is no state %q. Try: waiting, blocked, failing, stopped or delivered", f.State)
	}
	if f.Topic != "" {
		and("o.topic = ?", f.Topic)
	}
	if f.Key != "" {
		and("o.KEY = ? and o.seq > 0", f.Key) // by the index of topic, key and number
	}
	if f.Key != "" && table == "once_outbox_sent" {
		and("o.part in (?, ?)", int64(partOf(f.Topic, f.Key)), int64(earlierPartOf(f.Topic, f.Key)))
	}
	if f.Key == "" && b.db.Dialect() == sqlplane.PostgreSQL {
		query, args = byPart(table, query, f.State), append(args, f.Limit+1, f.Limit+1)
	}
	list, rows, err := b.entries(ctx, listed, table, query+" order by o.id limit ?", append(args, f.Limit+1)...)
	if err == nil && len(list) > f.Limit {
		list, next = list[:f.Limit], rows[f.Limit-1].id
	}
	return list, next, err
}

// byPart is the condition of the first rows of a table that meet another condition, with the limit as two more arguments. It reads the first of each
// part: PostgreSQL has no index of all by age. What has failed, or is behind such a one, is found from the failures, which are few.
func byPart(table, query string, state State) string {
	first := "select o.part, o.id from " + table + " o left join once_outbox_failed f on f.part = o.part and f.id = o.id where o.part = p.part and " + query + " order by o.id limit ?"
	switch state { //nolint:exhaustive // the others are in the table
	case StateFailing, StateStopped:
		first = "select o.part, o.id from once_outbox_failed f cross join lateral (select * from " + table + " o where o.part = f.part and o.id = f.id limit 1) o where f.part = p.part and " + query + " order by f.id limit ?"
	case StateBlocked:
		first = "select o.part, o.id from (select distinct topic, key from once_outbox_failed where part = p.part and key <> '') k cross join lateral (select * from " + table +
			" o where o.topic = k.topic and o.key = k.key and o.seq is not null offset 0) o left join once_outbox_failed f on f.part = o.part and f.id = o.id where o.part = p.part and " + query + " order by o.id limit ?"
	}
	return "(o.part, o.id) in (select h.part, h.id from generate_series(0, " + strconv.Itoa(parts-1) + ") p(part) cross join lateral (" + first + ") h order by h.id limit ?)"
}

// Show returns the message with an ID, also if it was delivered and is kept. If it cannot be
// decrypted the error says so, and the Entry is complete but for Payload and Headers. Show reads by
// an index.
func (b *Box[TX]) Show(ctx context.Context, id string) (Entry, error) {
	e, s, err := b.find(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	m, err := s.open(b.cfg.Encrypter)
	e.Payload, e.Headers = m.Payload, m.Headers
	return e, err
}

// find returns the entry and the row of the message with an ID.
func (b *Box[TX]) find(ctx context.Context, id string) (Entry, stored, error) {
	id = strings.ToLower(id)
	if !isUUID(id) {
		return Entry{}, stored{}, fmt.Errorf("outbox: %q is not the ID of a message. Try: a UUID that once outbox list has shown", printable.Short(id))
	}
	for _, table := range []string{"once_outbox", "once_outbox_sent", "once_outbox"} { // the last: a Resend may have moved it meanwhile
		list, rows, err := b.entries(ctx, shown, table, "o.event_id = ? limit 1", id) // an order would have MySQL read all of them by number
		if err != nil {
			return Entry{}, stored{}, err
		}
		if len(list) > 0 {
			return list[0], rows[0], nil
		}
	}
	return Entry{}, stored{}, notFound(id)
}

// mostByID is how many messages ByID returns.
const mostByID = current.MaxEvents

// ByID returns the messages with some IDs that are there, also those that were delivered and are kept, without their payloads and headers. It
// looks each up by an index, and at most 64 of them. A message that is not there was delivered, or its transaction has not committed.
func (b *Box[TX]) ByID(ctx context.Context, ids ...string) (list []Entry, err error) {
	var args []any
	for _, id := range ids[:min(len(ids), mostByID)] {
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

// What entries reads of headers and payload.
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

// wider is a row that has more columns than its reader knows.
type wider struct {
	sqlplane.Row
	more []any
}

// Scan implements [sqlplane.Row].
func (w wider) Scan(dest ...any) error { return w.Row.Scan(append(dest, w.more...)...) }

// statement is a query, written as package dialect says, with its arguments.
func (b *Box[TX]) statement(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(b.db.Dialect(), query), Args: args}
}
