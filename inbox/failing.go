package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store/sqlplane"
)

// Failing is a message that has arrived and whose attempts fail. The zero value means that no attempt of the
// message is known.
type Failing struct {
	EventID  string
	Attempts int64     // how many attempts have failed
	LastAt   time.Time // when the last attempt failed, by the clock of the database
	Error    string    // the error of the last attempt
}

// String returns a text for operators: how often the message has failed, and why.
func (f Failing) String() string {
	return fmt.Sprintf("was received, and its handler has failed %s (last error: %s)", words.Either(f.Attempts == 1, "once", fmt.Sprintf("%d times", f.Attempts)), words.Shown(f.Error))
}

// silence is how long a failing message may have no new attempt. After this time the alarm treats the
// message as missing, because the broker may have lost it.
func (c *Config) silence() time.Duration { return max(time.Hour, 2*c.Policy.Cap, c.GapAlarm) }

const (
	// attemptOf selects the newest attempt of the message for which the key p waits, by one look-up in an
	// index.
	attemptOf = ` from once_deadletter_attempt a where a.origin = 'inbox' and a.consumer = p.consumer and a.source = p.source and a.topic = p.topic and a.KEY = p.KEY and a.seq = p.seq + 1`
	newest    = attemptOf + " order by a.attempt desc, a.event_id desc limit 1)"

	// failingColumns are the columns of a Failing, next to the columns of p.
	failingColumns = "(select a.event_id" + newest + ", (select a.attempt" + newest + ", (select a.at" + newest + ", (select a.error" + newest
)

// scanned receives the columns of a Failing, which are null if the message has no attempt.
type scanned struct {
	event, failure *string
	attempts       *int64
	at             dialect.Time
}

// columns returns the targets for the columns failingColumns, in their order.
func (s *scanned) columns() []any { return []any{&s.event, &s.attempts, &s.at, &s.failure} }

// failing returns the zero Failing if the columns were null.
func (s *scanned) failing() Failing {
	if s.event == nil || s.attempts == nil || s.failure == nil {
		return Failing{}
	}
	return Failing{EventID: *s.event, Attempts: *s.attempts, LastAt: time.Time(s.at), Error: *s.failure}
}

// failingAt returns the failed attempts of the message seq of a key. The message must not be a dead letter.
func (in *Inbox[TX]) failingAt(ctx context.Context, r sqlplane.Runner, s stream, seq int64) (Failing, error) {
	var one scanned
	// Two messages may have the same Seq. Then the message with the most attempts counts.
	query := in.statement(`select event_id, attempt, at, error from once_deadletter_attempt
 where origin = ? and consumer = ? and source = ? and topic = ? and KEY = ? and seq = ? order by attempt desc, event_id desc limit 1`, append([]any{letter.OriginInbox}, in.parkedArgs(s, seq)...)...)
	err := r.Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(one.columns()...) })
	return one.failing(), err
}
