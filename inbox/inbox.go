package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Order is the order in which messages are applied. A message without a Key or a Seq has no order, and is applied
// once, whatever the Order of the inbox is.
type Order uint8

// These are the orders in which an inbox can apply messages.
const (
	// AnyOrder applies each message once, in any order. The inbox keeps the ID of each message for
	// Config.Retain.
	AnyOrder Order = iota

	// InOrder applies the messages of a source, topic and key in the order of their Seq, without a gap. A
	// message that arrives too early is parked in the database until the messages before it are applied. A
	// message that fails blocks the later messages of its key, but does not block other keys.
	InOrder

	// LatestVersion applies a message only if its Seq is greater than the last applied Seq of its source, topic
	// and key. Gaps are allowed. A message with a smaller Seq has the outcome [Stale].
	LatestVersion
)

// MaxConsumer is the largest length of a consumer's name, in bytes.
const MaxConsumer = 64

// Config configures an inbox.
type Config struct {
	// Consumer names the application that applies the messages, such as "billing". Inboxes of different
	// consumers are independent: each inbox applies every message. Required, at most [MaxConsumer] bytes.
	Consumer string

	// Order is the order in which messages are applied. Default: [AnyOrder].
	Order Order

	// With FromAny, the sequence of a key begins with the first message of the key that arrives, whatever
	// the Seq of this message is, and even if the handler fails for this message, or if the database fails while
	// the message is handled. Messages that arrive later with a smaller Seq count as duplicates. There is one
	// exception: while the database has stored nothing about the first message, only the process that has received
	// this message knows of it. If this process is killed in that time, or if another process handles a later
	// message of the key in that time, the later message can begin the key. Then the first message counts as a
	// duplicate when it is delivered again, and is not applied. If no message may be left out, call [Inbox.StartAt]
	// for the key before its first message arrives. Default: a key begins with Seq 1.
	FromAny bool

	// Policy says when a failed message is tried again, and when it becomes a dead letter. Default: 10
	// attempts, pauses between 1 second and 5 minutes with full jitter.
	Policy *retry.Policy

	// Retain is how long the ID of an applied message is kept, by the clock of the database. If a message is
	// delivered again after the time Retain, the message is applied a second time. So Retain must be longer than
	// the time in which a redelivery is possible: the retention of the broker plus the longest delay in an
	// outbox. The position of a key (the Seq of its last applied message) is kept for ever. Default 7 days.
	Retain time.Duration

	// RetainOf contains, for some sources, a time that replaces Retain. The key is the source (the field Source
	// of a message).
	RetainOf map[string]time.Duration

	// Redelivery is the longest time between two deliveries of one message, if you know it. New panics if
	// Retain, or a value of RetainOf, is shorter than Redelivery. Default: not checked.
	Redelivery time.Duration

	// ReportSameBody makes the inbox compare the payloads of messages with different IDs. If a message with the same payload but another ID
	// was applied before, the observer receives an [EventSameBody], and the new message is applied nevertheless. A message is compared only
	// with messages of the same consumer and source whose IDs are still kept. The usual reason for two messages with the same payload is a
	// sender that gives an event a new ID when it sends the event again. ReportSameBody costs a row for each message with a payload, and a
	// look-up after each commit. If two messages with the same payload are applied at the same time, both messages may be reported.
	// Default: off.
	ReportSameBody bool

	// With [LatestVersion], MaxJump is the largest allowed difference between the Seq of a message and the last
	// applied Seq of its key. With FromAny, MaxJump is also the largest Seq with which a key can begin. Without
	// MaxJump, one wrong Seq that is very large would make every later message count as stale. A message that
	// exceeds MaxJump becomes a dead letter of class "seq_jump"; a redrive applies the dead letter although it
	// exceeds MaxJump. Default 2^42, so that a Seq may be a time in milliseconds since 1970.
	MaxJump int64

	// GapAlarm is how long a key waits for a missing message before the observer gets an EventGap. A message that
	// has arrived and whose attempts fail does not count as missing. But a message whose attempts fail also
	// counts as missing if the message is not tried again for an hour. If GapAlarm, or twice the longest pause of
	// Policy, is longer than an hour, the longest of these times replaces the hour. Default 1 minute.
	GapAlarm time.Duration

	// MaxPayload is the largest length of a payload, in bytes. A message whose payload is longer than MaxPayload
	// becomes a dead letter, which does not contain the payload. If the sender sends the same message again after
	// MaxPayload was made larger, the message is applied in place of its dead letter. With InOrder, a message whose payload is longer
	// than MaxPayload becomes a dead letter only when it is the next message of its key; while earlier messages
	// of its key are missing, the message is refused with [ErrTooFarAhead]. Default [message.MaxPayload].
	MaxPayload int

	// Isolation is the isolation level of the transactions. READ COMMITTED is recommended: at higher levels,
	// concurrent messages of one key cause serialization failures and run again.
	Isolation store.Isolation

	// HandlerTimeout limits the time of one call of a handler. When HandlerTimeout has passed, the context of the
	// handler ends, and the attempt counts as failed ([ErrHandlerTimeout]). If the handler has not returned one
	// second later, its transaction is rolled back, and the handler can no longer write in this transaction. As
	// long as a handler that was too slow is still running, further attempts of its message fail without a call
	// of the handler. Default 30 s.
	HandlerTimeout time.Duration

	// Timeouts are the timeouts of the transactions. Each field that is set overrides the same
	// field of the engine's Config.Timeouts.
	Timeouts store.Timeouts

	// Encrypter, if it is set, encrypts payloads and headers of parked messages and dead letters, and the results that [Do]
	// stores.
	Encrypter once.Encrypter

	// Node names this process in the attempts of dead letters. Default: the name of the host.
	Node string

	// Observer receives the events of the inbox. Default: [Log] with slog.Default().
	Observer Observer

	// Tracer makes a span of each run of the handler. The type onceotel.Telemetry implements Tracer.
	// Default: no tracer.
	Tracer Tracer
}

// Handler applies a message in tx. The writes of a Handler through tx, and the fact that the message was
// applied, commit together or not at all. A Handler may run more than once, but only one run commits. To send
// messages through an outbox, add the messages to the outbox in the same tx.
//
// After an error the message is tried again, unless the error is [retry.Permanent] or the attempts of
// Config.Policy are used up. An attempt does not count if it fails because ctx has ended, or because of an error
// of the database that the message has not caused.
type Handler[TX any] = func(ctx context.Context, tx TX, m message.Message) error

// Inbox applies messages. The methods of Inbox can be called concurrently, and from any number of
// processes.
type Inbox[TX any] struct {
	engine *once.Engine[TX]
	db     sqlplane.SQL[TX]
	joiner store.Joiner[TX]
	cfg    Config
	op     once.Operation
	sql    texts

	hanging   hanging
	firsts    firsts
	consumers consumers
}

// New returns an inbox that uses the engine e and its store. The database of the store needs [Migrations]
// and the migrations of package deadletter. New panics if cfg is invalid, or if the store has no SQL or no
// savepoints.
func New[TX any](e *once.Engine[TX], cfg Config) *Inbox[TX] {
	db, hasSQL := store.As[sqlplane.SQL[TX]](e.Store())
	joiner, joins := store.As[store.Joiner[TX]](e.Store())
	if !hasSQL || !joins {
		panic("inbox: New: the store has no SQL transactions. Try: pgxstore or sqlstore")
	}
	cfg = cfg.complete()
	if err := cfg.check(); err != nil {
		panic("inbox: New: " + err.Error())
	}
	return &Inbox[TX]{
		engine: e, db: db, joiner: joiner, cfg: cfg, sql: textsOf(db.Dialect()),
		op: once.Operation{Name: "inbox " + cfg.Consumer, Isolation: cfg.Isolation, Timeouts: cfg.Timeouts},
	}
}

const defaultJump = 1 << 42

// Config returns the configuration of the inbox, with its defaults.
func (in *Inbox[TX]) Config() Config { return in.cfg }

// complete returns a copy of c with defaults for empty fields.
func (c *Config) complete() Config {
	full := *c
	full.Retain = cmp.Or(full.Retain, 7*24*time.Hour)
	// The caller may change the map later.
	full.RetainOf = maps.Clone(full.RetainOf)
	full.MaxJump = cmp.Or(full.MaxJump, defaultJump)
	full.GapAlarm = cmp.Or(full.GapAlarm, time.Minute)
	full.HandlerTimeout = cmp.Or(full.HandlerTimeout, 30*time.Second)
	full.MaxPayload = cmp.Or(full.MaxPayload, message.MaxPayload)
	policy := retry.Policy{Attempts: 10, Base: time.Second, Cap: 5 * time.Minute, Total: -1}
	if full.Policy != nil {
		policy = *full.Policy
	}
	if policy.Budget == nil { // without retry budget: the budget of the process protects other services, not this database
		policy.Budget = &retry.Budget{Burst: -1}
	}
	full.Policy = &policy
	if full.Node == "" {
		// Without a name of the host, the attempts have no node. This is no reason to fail.
		full.Node, _ = os.Hostname()
	}
	if full.Observer == nil {
		full.Observer = Log(nil)
	}
	return full
}

func (c *Config) check() error {
	switch {
	case c.Consumer == "":
		return errors.New("Config.Consumer is empty. Try: the name of the service that applies the messages, such as \"billing\"")
	case c.Order > LatestVersion:
		return fmt.Errorf("Config.Order is %d, which is not an order. Try: AnyOrder, InOrder or LatestVersion", c.Order)
	case c.Retain < 0, c.Redelivery < 0, c.MaxJump < 0, c.GapAlarm < 0, c.MaxPayload < 0, c.HandlerTimeout < 0:
		return fmt.Errorf("a setting is negative: Retain %v, Redelivery %v, MaxJump %d, GapAlarm %v, MaxPayload %d or HandlerTimeout %v", c.Retain, c.Redelivery, c.MaxJump, c.GapAlarm, c.MaxPayload, c.HandlerTimeout)
	}
	if err := message.CheckText("consumer", c.Consumer, MaxConsumer); err != nil {
		return err
	}
	if err := c.checkRetain("Retain", c.Retain); err != nil {
		return err
	}
	for source, d := range c.RetainOf {
		if err := c.checkRetain(fmt.Sprintf("RetainOf[%q]", source), d); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkRetain(name string, d time.Duration) error {
	switch {
	case d <= 0 || d > math.MaxInt64/2:
		return fmt.Errorf("%s is %v, but must be positive and shorter than 146 years. Try: a time that is longer than the broker may take to deliver a message again", name, d)
	case d < c.Redelivery:
		return fmt.Errorf("%s is %v, but a message may be delivered again after %v (Config.Redelivery), and would then be applied twice. Try: a longer %s", name, d, c.Redelivery, name)
	}
	return nil
}

// retain returns how long the IDs of a source are kept.
func (c *Config) retain(source string) time.Duration {
	if d, ok := c.RetainOf[source]; ok {
		return d
	}
	return c.Retain
}

// statement returns a statement with its arguments. The query uses the placeholders of package dialect.
func (in *Inbox[TX]) statement(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(in.db.Dialect(), query), Args: args}
}
