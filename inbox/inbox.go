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

// Order is in which order messages are applied. Without a Key or a Seq, a message has no order, and is
// applied once in any case.
type Order uint8

// The orders.
const (
	// AnyOrder applies each message once, in any order. It keeps the ID of each message for Config.Retain.
	AnyOrder Order = iota

	// InOrder applies the messages of a source, topic and key in the order of their Seq, without a gap. One
	// that comes too early is parked until its turn comes. One that fails blocks its key, and no other.
	InOrder

	// LatestVersion applies a message only if its Seq is greater than that of the last one that was applied
	// of the source, topic and key. Gaps are allowed, and an older version is told as [Stale].
	LatestVersion
)

// MaxConsumer is the longest name of a consumer, in bytes.
const MaxConsumer = 64

// Config of an inbox.
type Config struct {
	// Consumer names who applies the messages, such as "billing". Inboxes of different consumers are
	// independent: each applies every message. Required, at most [MaxConsumer] bytes.
	Consumer string

	// Order is in which order messages are applied. Default: [AnyOrder].
	Order Order

	// FromAny has the first message of a key begin its sequence, whatever its Seq is, and also if its handler
	// fails. Of those that come later, the ones with a smaller Seq count as duplicates. Default: a key begins at 1. See [Inbox.StartAt].
	FromAny bool

	// Policy says when a failed message is tried again, and when it is given up and becomes a dead letter.
	// Default: 10 attempts, pauses between 1 second and 5 minutes with full jitter.
	Policy *retry.Policy

	// Retain is how long the ID of an applied message is known, by the clock of the database. A message that is
	// delivered again later is applied again. It must be longer than the longest way of a redelivery: the
	// retention of the broker, and what an outbox may deliver late. The position of a key is kept for ever. Default 7 days.
	Retain time.Duration

	// RetainOf is Retain of some sources.
	RetainOf map[string]time.Duration

	// Redelivery is the longest time between two deliveries of one message, if it is known: New panics if
	// an ID is forgotten earlier. Default: not checked.
	Redelivery time.Duration

	// ReportSameBody has the observer told ([EventSameBody]) when a message is applied whose payload was applied under another ID,
	// for the same consumer and source, within the retention: perhaps its sender gives an event a new ID when it sends again. The
	// message is applied all the same. It costs a row for each message with a payload, and a look-up after each commit. Two messages
	// that are applied at the same time may both be told. Default: off.
	ReportSameBody bool

	// MaxJump bounds how far the Seq of a message may be beyond the last one that was applied of its key, with [LatestVersion]; with FromAny, also the
	// Seq with which a key begins. A wrong number that is very large would make every later message count as late. One further ahead is a dead letter
	// of class "seq_jump"; a redrive of it applies it all the same. Default 2^42, which is above milliseconds since 1970.
	MaxJump int64

	// GapAlarm is how long a key waits for a missing message until the observer is told. A message that has come and fails is not missing, unless
	// its last attempt was longer ago than an hour and two of the longest pauses of Policy. Default 1 minute.
	GapAlarm time.Duration

	// MaxPayload is the longest payload in bytes. A message with a longer one becomes a dead letter without its payload;
	// InOrder, when its turn has come: until then it is refused with [ErrTooFarAhead].
	// Default [message.MaxPayload].
	MaxPayload int

	// Isolation of the transactions. READ COMMITTED is a good one: at higher levels messages of one key
	// that come at the same time run again.
	Isolation store.Isolation

	// HandlerTimeout bounds one call of a handler. Then its context ends, and the attempt counts as failed ([ErrHandlerTimeout]). A handler
	// that has not returned a second later is left alone: its transaction is rolled back, and it cannot write in it any more. While it goes
	// on, the attempts of its message fail without a call. Default 30 s.
	HandlerTimeout time.Duration

	// Timeouts of the transactions. They go before those of the engine, one by one.
	Timeouts store.Timeouts

	// Encrypter, if it is set, encrypts payloads and headers of parked messages and dead letters.
	Encrypter once.Encrypter

	// Node names this process in the attempts of dead letters. Default: the name of the host.
	Node string

	// Observer is told what happens. Default: [Log] with slog.Default().
	Observer Observer

	// Tracer makes a span of each run of the handler. An onceotel.Telemetry is one. Default: none.
	Tracer Tracer
}

// Handler applies a message in tx. What it writes through tx commits together with the fact that the
// message was applied, or not at all. It may run more than once, but only one run commits. Messages for an
// outbox are added to tx as well.
//
// After an error the message is tried again, unless it is [retry.Permanent] or the attempts of Config.Policy are
// used up. An error of the database that is not the message's fault, and the end of ctx, are no attempts.
type Handler[TX any] = func(ctx context.Context, tx TX, m message.Message) error

// Inbox applies messages. Its methods can be called concurrently, and from any number of processes.
type Inbox[TX any] struct {
	engine *once.Engine[TX]
	db     sqlplane.SQL[TX]
	joiner store.Joiner[TX]
	cfg    Config
	op     once.Operation
	sql    texts

	hanging   hanging
	consumers consumers
}

// New returns an inbox on the store of e, whose database needs [Migrations] and those of package deadletter.
// It panics if cfg is invalid, or if the store has no SQL or no savepoints.
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

// Config returns the configuration in force.
func (in *Inbox[TX]) Config() Config { return in.cfg }

// complete returns c with what it leaves open.
func (c *Config) complete() Config {
	full := *c
	full.Retain = cmp.Or(full.Retain, 7*24*time.Hour)
	full.RetainOf = maps.Clone(full.RetainOf)
	full.MaxJump = cmp.Or(full.MaxJump, defaultJump)
	full.GapAlarm = cmp.Or(full.GapAlarm, time.Minute)
	full.HandlerTimeout = cmp.Or(full.HandlerTimeout, 30*time.Second)
	full.MaxPayload = cmp.Or(full.MaxPayload, message.MaxPayload)
	policy := retry.Policy{Attempts: 10, Base: time.Second, Cap: 5 * time.Minute, Total: -1}
	if full.Policy != nil {
		policy = *full.Policy
	}
	if policy.Budget == nil { // the budget of the process is for calls to others
		policy.Budget = &retry.Budget{Burst: -1}
	}
	full.Policy = &policy
	if full.Node == "" {
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
		return errors.New("the consumer is empty. Try: who applies the messages, such as \"billing\"")
	case c.Order > LatestVersion:
		return fmt.Errorf("there is no order %d. Try: AnyOrder, InOrder or LatestVersion", c.Order)
	case c.Retain < 0, c.Redelivery < 0, c.MaxJump < 0, c.GapAlarm < 0, c.MaxPayload < 0, c.HandlerTimeout < 0:
		return fmt.Errorf("negative Retain %v, Redelivery %v, MaxJump %d, GapAlarm %v, MaxPayload %d or HandlerTimeout %v", c.Retain, c.Redelivery, c.MaxJump, c.GapAlarm, c.MaxPayload, c.HandlerTimeout)
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
		return fmt.Errorf("%s is %v. Try: a time that is longer than that of every redelivery", name, d)
	case d < c.Redelivery:
		return fmt.Errorf("%s is %v, but a message may be delivered again after %v (Redelivery), and would be applied twice. Try: a longer %s", name, d, c.Redelivery, name)
	}
	return nil
}

// retain is how long the IDs of a source are known.
func (c *Config) retain(source string) time.Duration {
	if d, ok := c.RetainOf[source]; ok {
		return d
	}
	return c.Retain
}

// statement is a query, written as package dialect says, with its arguments.
func (in *Inbox[TX]) statement(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(in.db.Dialect(), query), Args: args}
}
