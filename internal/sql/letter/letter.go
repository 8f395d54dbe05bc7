// Package letter keeps messages that could not be handled, and every failed delivery of them. An
// inbox and a relay write with it; package deadletter is for operators. deadletter.Migrations
// creates the tables.
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
	StateDead      = "dead"      // it waits for a person, or for its redrive
	StateApplied   = "applied"   // a redrive has succeeded
	StateStale     = "stale"     // a newer version had been applied
	StateDiscarded = "discarded" // a person has given it up
)

// ID names a message. Topic, Key and Seq belong to it, because senders exist that number their messages per key: then two
// keys have messages with the same ID.
type ID struct {
	Origin     string // OriginInbox or OriginOutbox
	Consumer   string // of an inbox
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

	// isAttempt is also true of attempts that older programs have noted, without topic, key and seq: they have the seq -1.
	isAttempt = hasID + " and (topic = ? and KEY = ? and seq = ? or seq = -1)"

	hasID = "origin = ? and consumer = ? and source = ? and event_id = ?"
)

// Envelope is a hash of the message's own data besides its source, ID and payload.
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
	Headers, Payload []byte // as its capability stores them; empty when the letter is resolved, and of an outbox, which keeps the message
	Encrypted        bool   // Headers and Payload
	Hash             []byte // of the payload that was received
	Trace            string
	CreatedAt        time.Time // zero: not known

	Class         string // such as "permanent" or "mismatch"
	Error         string // the last one
	Cause         string // Error without numbers and ids
	Attempts      int
	FirstFailedAt time.Time // Bury: zero is now
	DeadAt        time.Time // Bury sets it

	State      string
	Redrive    string    // the last redrive that has chosen it
	RedriveAt  time.Time // it is due then; zero: it waits for a person
	ResolvedAt time.Time
	Reason     string // why it was discarded
}

// Attempt is one failed delivery.
type Attempt struct {
	Number int       // 1, 2, ...; set by Record
	At     time.Time // set by Record
	Node   string    // the process
	Error  string
	Trace  string
	Class  string // of the letter, if the attempt was a redrive; it is not stored with the attempt
}

// maxError is the longest stored error, maxCause the longest cause, in bytes.
const (
	maxError = 2000
	maxCause = 200
)

// Columns are the columns that Scan reads, as package dialect writes them. ListColumns leave headers and payload out.
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

// Seal encrypts the headers and the payload of l, if e is set.
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

// Open decrypts what Seal has encrypted. After an error l is as it was.
func (l *Letter) Open(e seal.Encrypter) error {
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

// Resolved reports whether nothing is left to do.
func (l *Letter) Resolved() bool { return l.State != "" && l.State != StateDead }

// label binds encrypted data to its message: moved to another row it does not open.
func (l *Letter) label() string {
	return strings.Join([]string{"letter", l.Origin, l.Consumer, l.Source, l.EventID, ""}, "\x00")
}

// text is a text as any database stores it.
func text(s string, most int) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "?") // which is never longer
}

// variable matches the differences between two errors of the same cause: a UUID, a number, a word with a digit in it.
var variable = regexp.MustCompile(`[\w-]*\d[\w-]*`)

// causeOf returns an error without numbers and ids, as one line: a person copies it into a command.
func causeOf(err string) string {
	err = strings.Join(strings.FieldsFunc(err, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }), " ")
	return text(variable.ReplaceAllString(text(err, maxError), "#"), maxCause)
}
