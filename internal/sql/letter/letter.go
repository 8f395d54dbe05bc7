// Package letter stores messages that could not be handled, and the failed deliveries of messages. An inbox and a relay write
// with this package. Package deadletter is for operators. deadletter.Migrations creates the tables.
package letter

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// Origins of letters.
const (
	OriginInbox  = "inbox"
	OriginOutbox = "outbox"
)

// States of a letter.
const (
	StateDead      = "dead"      // the letter waits for a person, or for its redrive
	StateApplied   = "applied"   // a redrive has succeeded
	StateStale     = "stale"     // a newer version was applied before
	StateDiscarded = "discarded" // a person has discarded the letter
)

// ID identifies a message. Topic, Key and Seq are parts of it, because some senders number their messages for each key. Then two
// keys have messages with the same ID.
type ID struct {
	Origin     string // OriginInbox or OriginOutbox
	Consumer   string // the consumer of an inbox
	Source     string
	EventID    string
	Topic, Key string
	Seq        int64 // 0 means no number
}

func (id ID) args() []any {
	return []any{id.Origin, id.Consumer, id.Source, id.EventID, id.Topic, id.Key, id.Seq}
}

const (
	isID = hasID + " and topic = ? and KEY = ? and seq = ?"

	// isAttempt also matches attempts of earlier releases, which stored no topic, key and seq. These have the seq -1.
	isAttempt = hasID + " and (topic = ? and KEY = ? and seq = ? or seq = -1)"

	hasID = "origin = ? and consumer = ? and source = ? and event_id = ?"
)

// Envelope returns a hash of the topic, the key and the type of a message.
func Envelope(topic, key, kind string) []byte {
	h := sha256.New()
	for _, text := range [...]string{topic, key, kind} {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return h.Sum(nil)[:16]
}

// Letter is a message that was given up.
type Letter struct {
	UID string // UUIDv7
	ID
	Type             string
	Headers, Payload []byte // in the form of its capability; empty after the letter is resolved, and empty for an outbox, which keeps the message itself
	Encrypted        bool   // Headers and Payload are encrypted
	Hash             []byte // the hash of the received payload
	Trace            string
	CreatedAt        time.Time // zero: not known

	Class         string // the class, such as "permanent" or "mismatch"
	Error         string // the last error
	Cause         string // the last error without numbers and IDs
	Attempts      int
	FirstFailedAt time.Time // for Bury: zero means now
	DeadAt        time.Time // Bury sets it

	State      string
	Redrive    string    // the last redrive that has selected the letter
	RedriveAt  time.Time // when the redrive is due; zero: the letter waits for a person
	ResolvedAt time.Time
	Reason     string // why the letter was discarded
}

// Attempt is one failed delivery.
type Attempt struct {
	Number int       // 1, 2, ...; set by Record
	At     time.Time // set by Record
	Node   string    // the name of the process
	Error  string
	Trace  string
	Class  string // the class of the letter, if the attempt was a redrive; it is not stored with the attempt
}

// maxError and maxCause are the largest sizes of a stored error and of a cause, in bytes.
const (
	maxError = 2000
	maxCause = 200
)

// Columns contains the columns that Scan reads, in the words of package dialect. ListColumns omits headers and payload.
const (
	Columns     = identity + ", headers, payload" + others
	ListColumns = identity + ", null, null" + others

	identity = "uid, origin, consumer, source, event_id, topic, KEY, event_type, seq"
	others   = ", encrypted, payload_hash, trace, created_at, class, error, cause, attempts, first_failed_at, dead_at, state, redrive, redrive_at, resolved_at, reason"
)

// Scan reads Columns.
func Scan(row sqlplane.Row) (l Letter, err error) {
	err = row.Scan(&l.UID, &l.Origin, &l.Consumer, &l.Source, &l.EventID, &l.Topic, &l.Key, &l.Type, &l.Seq, &l.Headers, &l.Payload, &l.Encrypted, &l.Hash, &l.Trace, (*dialect.Time)(&l.CreatedAt),
		&l.Class, &l.Error, &l.Cause, &l.Attempts, (*dialect.Time)(&l.FirstFailedAt), (*dialect.Time)(&l.DeadAt), &l.State, &l.Redrive, (*dialect.Time)(&l.RedriveAt), (*dialect.Time)(&l.ResolvedAt), &l.Reason)
	return l, err
}

// Seal encrypts the headers and the payload of l, if e is not nil.
func (l *Letter) Seal(e seal.Encrypter) (err error) {
	if e == nil {
		return nil
	}
	if l.Headers, l.Payload, err = seal.Message(e, l.label(), l.Headers, l.Payload); err != nil {
		return fmt.Errorf("a row of a dead letter cannot be read: %w", err)
	}
	l.Encrypted = true
	return nil
}

// Open decrypts the data that Seal has encrypted. After an error l is unchanged.
func (l *Letter) Open(e seal.Encrypter) error {
	// The data of a resolved letter is erased.
	if !l.Encrypted || l.Resolved() {
		return nil
	}
	headers, payload, err := seal.OpenMessage(e, l.label(), l.Headers, l.Payload)
	if err != nil {
		return fmt.Errorf("the stored data of dead letter %s cannot be read: %w", l.UID, err)
	}
	l.Headers, l.Payload, l.Encrypted = headers, payload, false
	return nil
}

// Resolved reports whether the letter needs no further decision.
func (l *Letter) Resolved() bool { return l.State != "" && l.State != StateDead }

// label binds encrypted data to its message: the data cannot be decrypted in another row.
func (l *Letter) label() string {
	return strings.Join([]string{"letter", l.Origin, l.Consumer, l.Source, l.EventID, ""}, "\x00")
}

// text returns s in a form that every database can store.
func text(s string, most int) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "?") // the replacement never makes s longer
}

// variable matches the parts that differ between two errors of the same cause: a UUID, a number, or a word with a digit.
var variable = regexp.MustCompile(`[\w-]*\d[\w-]*`)

// causeOf returns an error without numbers and IDs, on one line, so that a person can copy it into a command.
func causeOf(err string) string {
	err = strings.Join(strings.FieldsFunc(err, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }), " ")
	return text(variable.ReplaceAllString(text(err, maxError), "#"), maxCause)
}
