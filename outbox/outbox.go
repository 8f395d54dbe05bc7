package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Config configures an outbox. The zero value is ready to use.
type Config struct {
	// Source is the CloudEvents source (a URI reference) of messages that are added without a Source. Default:
	// "once".
	Source string

	// RetainDelivered is how long delivered messages are kept, so that people can look them up. Default: a
	// message is deleted when it is delivered.
	RetainDelivered time.Duration

	// Archive receives the delivered messages that a relay is about to delete; an example is
	// (*archive.Writer).Write. Archive receives the rows as they are stored: encrypted columns stay
	// encrypted. The rows are deleted only after Archive has returned nil, so Archive may receive a row
	// twice. Archive requires RetainDelivered. Default: no archive.
	Archive func(ctx context.Context, rows []upkeep.Expired) error

	// MaxPayload is the longest payload in bytes. Default: [message.MaxPayload].
	MaxPayload int

	// Trace returns the W3C traceparent of a context, or "" if the context has no trace. Default: no trace is stored.
	Trace func(context.Context) string

	// Encrypter encrypts payloads and headers in the database. If Encrypter is nil, nothing is encrypted.
	// Relays and the tools of operators need the same Encrypter.
	Encrypter once.Encrypter
}

// Box is the outbox of a database. The methods of Box can be called concurrently.
type Box[TX any] struct {
	db     sqlplane.SQL[TX]
	cfg    Config
	add    insert
	who    string        // for the audit: see By
	reason string        // the reason for Resume, Resend and Forget
	added  *atomic.Int64 // the time of the last Add, by elapsed; 0 before the first one
}

// New returns the outbox in the database of s. The database must have the tables of [Migrations]. New panics
// if cfg is invalid.
func New[TX any](s sqlplane.SQL[TX], cfg Config) *Box[TX] {
	cfg.Source = cmp.Or(cfg.Source, "once")
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, message.MaxPayload)
	err := message.CheckText("source", cfg.Source, message.MaxText)
	if err == nil {
		err = checkSource(cfg.Source)
	}
	if err == nil && (cfg.RetainDelivered < 0 || cfg.MaxPayload < 0) {
		err = fmt.Errorf("Config.RetainDelivered %v and Config.MaxPayload %d must not be negative", cfg.RetainDelivered, cfg.MaxPayload)
	}
	if err == nil && cfg.Archive != nil && cfg.RetainDelivered == 0 {
		err = errors.New("Config.Archive is set, but Config.RetainDelivered is 0: each message is deleted when it is delivered, so the archive would get no messages. Try: a RetainDelivered of one day")
	}
	if err != nil {
		panic("outbox: New: " + err.Error())
	}
	return &Box[TX]{db: s, cfg: cfg, add: insertOf(s.Dialect()), added: new(atomic.Int64)}
}

// Add stores messages in tx, which is the transaction of a handler, or a transaction that the user has
// opened. The messages are delivered if and only if tx commits. Add copies payloads and headers.
//
// Add checks all messages before it stores the first message. If the error is not a [store.Error], the error
// names an invalid message, nothing was stored, and tx can still be used. After a store.Error, roll tx back:
// no other use of tx is possible. On pgxstore the messages are sent together with COMMIT, without an
// additional round trip. So on pgxstore, if the database refuses a message, Add returns nil and the commit
// returns the error.
//
// A message with a key locks the row of its topic and key until tx ends. The rows of one Add, and on pgxstore
// the rows of a whole operation, are locked in a fixed order, so that transactions do not deadlock. On stores
// other than pgxstore, transactions that call Add several times may deadlock. After a deadlock, the error of
// Add has the kind [store.KindRetry], and the engine runs the operation again. The engine also runs the
// operation again after a conflict at REPEATABLE READ or SERIALIZABLE. So use READ COMMITTED if many
// transactions add messages with the same key.
func (b *Box[TX]) Add(ctx context.Context, tx TX, messages ...message.Message) error {
	statements, err := b.statements(ctx, current.Of(ctx), messages)
	if err != nil {
		return err
	}
	r := b.db.On(tx)
	for _, s := range statements {
		if err := r.Append(ctx, s); err != nil {
			return err
		}
	}
	b.note()
	return nil
}

// Declare is like [Box.Add], but adds the messages to a batch. If Declare returns an error, no message was added
// to the batch. The parameter ctx is passed to Config.Trace.
func (b *Box[TX]) Declare(ctx context.Context, batch *once.Batch, messages ...message.Message) error {
	statements, err := b.statements(ctx, current.OfBatch(batch), messages)
	if err != nil {
		return err
	}
	for _, s := range statements {
		batch.Add(s)
	}
	b.note()
	return nil
}

// note records the time of an Add, so that the next commits wake the relays of this process.
func (b *Box[TX]) note() { b.added.Store(elapsed()) }

// statements returns the statements that store messages, in the order of their locks. The parameter op is the
// operation that adds the messages, or nil outside of a handler. The record of op stores the IDs of the
// messages, and each message stores the operation.
func (b *Box[TX]) statements(ctx context.Context, op *current.Operation, messages []message.Message) (list []store.Statement, err error) {
	var trace string
	if b.cfg.Trace != nil {
		trace = b.cfg.Trace(ctx)
	}
	var by store.ID
	var ids []string
	if op != nil {
		by = op.ID
	}
	list = make([]store.Statement, 0, 2*len(messages))
	// All messages are checked before the first one is stored, so an invalid message changes nothing.
	for i, m := range messages {
		m, err := b.cfg.checked(m, trace)
		if err == nil {
			if op != nil {
				m.Headers = withKeyHash(m.Headers, by.Key)
				ids = append(ids, m.ID)
			}
			// Messages without a key have no order, so their IDs spread them over the parts of the topic.
			part := partOf(m.Topic, cmp.Or(m.Key, m.ID))
			list, err = b.append(list, part, &m, by)
		}
		if err != nil {
			return nil, fmt.Errorf("outbox: message %d of %d: %w", i+1, len(messages), err)
		}
	}
	if op != nil {
		op.Note(ids...)
	}
	// Transactions that lock the same keys in the same order do not deadlock.
	return sqlplane.InLockOrder(list), nil
}

// withKeyHash returns headers with the hash of the key of an operation.
func withKeyHash(headers map[string]string, key string) map[string]string {
	all := make(map[string]string, len(headers)+1)
	maps.Copy(all, headers)
	all[message.HeaderKeyHash] = keyname.Hashes(key)[0] // a key that the store keeps as a hash gives the same value
	return all
}

// append appends the statements that store m. The caller has checked m.
func (b *Box[TX]) append(list []store.Statement, part int, m *message.Message, by store.ID) ([]store.Statement, error) {
	headers, payload, err := sealed(b.cfg.Encrypter, m)
	if err != nil {
		return nil, err
	}
	values := []any{int64(part), m.Topic, m.Key, m.ID, m.Type, m.Source, headers, payload, b.cfg.Encrypter != nil, m.Trace, by.Scope, by.Key}
	if m.Key == "" {
		return append(list, store.Statement{SQL: b.add.unordered, Args: values}), nil
	}
	locks := "outbox/" + m.Topic + "\x00" + m.Key // a text cannot contain NUL, so different rows have different names
	if b.add.next != "" {
		list = append(list, store.Statement{SQL: b.add.next, Args: []any{m.Topic, m.Key}, Locks: locks})
		values = append(values, m.Topic, m.Key)
	}
	return append(list, store.Statement{SQL: b.add.ordered, Args: values, Locks: locks}), nil
}

// insert has the texts of the statements that store a message.
type insert struct {
	unordered string // without a key
	next      string // takes the next number of the key, and locks the row of the key; "" if the text ordered does both
	ordered   string
}

// insertOf returns the texts for the dialect d. A statement draws the id after it has locked the row of the
// key, so the ids of a key grow with its numbers.
func insertOf(d sqlplane.Dialect) insert {
	const row = "insert into once_outbox (part, topic, KEY, event_id, event_type, source, headers, payload, encrypted, trace, op_scope, op_key, created_at, seq) "
	const first = "1 + coalesce((select seq from once_stream_start where id = 1), 0)" // of a new key: see Box.Renumber
	i := insert{
		unordered: dialect.Text(d, row+"values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NOW, null)"),
		next:      dialect.Text(d, "insert into once_stream (topic, KEY, seq) values (?, ?, "+first+") UPSERT(topic, KEY) seq = once_stream.seq + 1"),
		ordered:   dialect.Text(d, row+"select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NOW, seq from once_stream where topic = ? and KEY = ?"),
	}
	if d == sqlplane.PostgreSQL {
		i.next = ""
		i.ordered = `with stream as (insert into once_stream (topic, key, seq) values ($2, $3, ` + first + `) on conflict (topic, key) do update set seq = once_stream.seq + 1 returning seq)
 ` + dialect.Text(d, row) + `select $1::smallint, $2, $3, $4::uuid, $5, $6, $7::bytea, $8::bytea, $9::boolean, $10, $11, $12, statement_timestamp(), seq from stream`
	}
	return i
}

// parts is how many parts an outbox has. The number never changes, because relays of different releases share
// the parts.
const parts = 64

// queuesOfTopic is how many parts have the messages of one topic. The number never changes.
const queuesOfTopic = 4

// partOf returns the part of the messages of a topic and key. For a message without a key, the caller passes
// its ID. The result never changes between releases.
func partOf(topic, key string) int {
	return int((hash(topic) + mixed(hash(topic, "\x00", key))%queuesOfTopic) % parts)
}

// mixed spreads each bit of h over all bits, as MurmurHash3 does at its end. Without it, for one key under many
// topics, the low bits of the FNV hash would depend on the topics alone.
func mixed(h uint32) uint32 {
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// earlierPartOf returns the part that older releases have used. Messages that they have added stay in this
// part.
func earlierPartOf(topic, key string) int { return int(hash(topic, "\x00", key) % parts) }

// hash returns the FNV-1a hash of texts.
func hash(texts ...string) uint32 {
	h := uint32(2166136261)
	for _, s := range texts {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * 16777619
		}
	}
	return h
}
