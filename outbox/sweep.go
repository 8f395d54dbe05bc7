package outbox

import (
	"context"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/aged"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// How many delivered messages one statement deletes, and how often a relay looks for old ones.
const (
	sweepBatch = 1000
	sweepEvery = 15 * time.Second
)

// archiveTime bounds one batch of an archive. It is long, because the messages of a batch that has taken too long are archived again.
const archiveTime = 10 * time.Minute

// sweep deletes delivered messages after RetainDelivered, in the process that holds part 0, until ctx ends. It has a goroutine of its own, so that a
// long sweep delays nothing else.
func (r *Relay) sweep(ctx context.Context) {
	if r.keep == 0 {
		return
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// One relay is enough, and exactly one relay holds part 0.
		held, done := r.holder.Use([]int{0})
		done()
		if len(held) == 0 {
			continue
		}
		if err := r.sweepSent(ctx); err != nil && ctx.Err() == nil {
			r.tell(ctx, Event{Type: EventDatabase, Err: err})
		}
	}
}

// sweepSent deletes messages that were delivered longer ago than RetainDelivered, oldest first, until no such message is left, so that deletes keep
// up with deliveries. Between two statements it pauses for as long as the last one took, so that the database has time for others.
func (r *Relay) sweepSent(ctx context.Context) error {
	most := statementTime
	if r.archive != nil {
		most = archiveTime
	}
	for ctx.Err() == nil {
		var more bool
		began := time.Now()
		err := within(ctx, most, func(ctx context.Context) (err error) {
			more, err = r.sweepSome(ctx)
			return err
		})
		if err != nil || !more {
			return err
		}
		sleep.For(ctx, time.Since(began))
	}
	return nil
}

// sweepSome deletes some of them. If an archive is set, it gets them first. more reports that others may exist.
func (r *Relay) sweepSome(ctx context.Context) (more bool, err error) {
	if r.archive != nil {
		_, more, err = aged.Sweep(ctx, r.db, archived, r.keep, r.archive)
		return more, err
	}
	d := r.db.Dialect()
	n, err := r.db.Pool().Exec(ctx, store.Statement{SQL: dialect.Text(d, deleteSent[d]), Args: []any{r.keep.Microseconds(), int64(sweepBatch)}})
	return n >= sweepBatch, err
}

// archived is the table of delivered messages as an archive has it: under the topic and the ID of the message.
var archived = aged.Table{
	Name: "once_outbox_sent", At: "sent_at", Is: "part = ? and id = ?",
	Columns: storedColumns + ", op_scope, op_key, sent_at",
	Read: func(row sqlplane.Row) (aged.Row, error) {
		var c archivedMessage
		s, err := scanStored(wider{row, []any{&c.OpScope, &c.OpKey, (*dialect.Time)(&c.SentAt)}})
		m := s.message
		c.Part, c.ID, c.Topic, c.Key, c.Seq, c.EventID, c.EventType, c.Source = s.part, s.id, m.Topic, m.Key, m.Seq, m.ID, m.Type, m.Source
		c.Headers, c.Payload, c.Encrypted, c.Trace, c.CreatedAt = s.headers, m.Payload, s.encrypted, m.Trace, m.CreatedAt
		return aged.Row{ID: store.ID{Scope: m.Topic, Key: m.ID}, At: c.SentAt, Args: []any{int64(s.part), s.id}, Columns: c, Bytes: len(c.Headers) + len(c.Payload)}, err
	},
}

// archivedMessage is a row of once_outbox_sent in an archive. Its fields are the columns.
type archivedMessage struct {
	Part      int       `json:"part"`
	ID        int64     `json:"id"`
	Topic     string    `json:"topic"`
	Key       string    `json:"key"`
	Seq       int64     `json:"seq,omitempty"`
	EventID   string    `json:"event_id"`
	EventType string    `json:"event_type"`
	Source    string    `json:"source"`
	Headers   []byte    `json:"headers,omitempty"`
	Payload   []byte    `json:"payload,omitempty"`
	Encrypted bool      `json:"encrypted"` // headers and payload
	Trace     string    `json:"trace,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	OpScope   string    `json:"op_scope,omitempty"`
	OpKey     string    `json:"op_key,omitempty"`
	SentAt    time.Time `json:"sent_at"`
}

// deleteSent deletes at most ? messages that were delivered more than ? microseconds ago. On PostgreSQL, relays that sweep at the same time do not
// wait for each other.
var deleteSent = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `with old as (
  select part, id from once_outbox_sent where sent_at < AGO(?) order by sent_at limit ? FOR UPDATE SKIP LOCKED)
 delete from once_outbox_sent s using old where s.part = old.part and s.id = old.id`,
	sqlplane.SQLite: "delete from once_outbox_sent where (part, id) in (select part, id from once_outbox_sent where sent_at < AGO(?) order by sent_at limit ?)",
	sqlplane.MySQL:  "delete from once_outbox_sent where sent_at < AGO(?) order by sent_at limit ?",
}
