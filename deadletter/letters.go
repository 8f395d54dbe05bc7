package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Config configures [Letters].
type Config struct {
	// Encrypter decrypts payloads and headers. Encrypter is required if the service encrypts
	// payloads and headers.
	Encrypter once.Encrypter
}

// Letters gives access to the dead letters of a database. The methods of Letters can be called
// concurrently.
type Letters struct {
	db  sqlplane.Database
	cfg Config
}

// New returns the [Letters] of the database db. Run the migrations in [Migrations] in this database before you
// use the Letters. New does not contact the database.
func New(db sqlplane.Database, cfg Config) *Letters { return &Letters{db, cfg} }

// A call that returns ErrNotFound or ErrNoRun has changed nothing, and has returned no letters.
var (
	ErrNotFound = errors.New("deadletter: no dead letter has this UID. Try: Letters.List, or once deadletter list --letters")
	ErrNoRun    = errors.New("deadletter: no redrive has this UID. Try: Letters.Redrives, or once deadletter list")
)

// Letter is a dead letter: a message that the inbox or the relay no longer tries to handle.
type Letter struct {
	UID      string // the ID of the dead letter
	Origin   string // "inbox" or "outbox"
	Consumer string // the consumer, if Origin is "inbox"
	Source   string
	EventID  string
	Topic    string
	Key      string
	Type     string
	Seq      int64 // 0 if the message has no number

	Headers   map[string]string // set by Show only
	Payload   []byte            // set by Show only. Payload is erased when the dead letter is resolved (applied, stale or discarded); for Origin "outbox", Payload is read from the message in the outbox
	Encrypted bool              // true if Headers and Payload could not be decrypted
	Trace     string
	CreatedAt time.Time // zero if the time is not known

	Class         string // such as "permanent", "exhausted" or "mismatch"
	Error         string // the error of the last attempt
	Cause         string // Error without numbers and ids
	Attempts      int
	FirstFailedAt time.Time
	DeadAt        time.Time

	State      State
	Redrive    string    // the ID of the last redrive that has chosen the dead letter
	RedriveAt  time.Time // when the dead letter is tried again; zero if the dead letter waits for the decision of a person
	ResolvedAt time.Time
	Reason     string // why the dead letter was discarded
}

// State is the state of a dead letter.
type State string

const (
	StateDead      State = letter.StateDead      // the dead letter waits for the decision of a person, or for another try in a redrive
	StateApplied   State = letter.StateApplied   // a redrive has tried the message again, and the message was applied
	StateStale     State = letter.StateStale     // a redrive has tried the message again, but a newer version of the message had already been applied
	StateDiscarded State = letter.StateDiscarded // a person has discarded the dead letter
)

// Attempt is one failed delivery of a message.
type Attempt struct {
	Number int // 1, 2, ...; if the letter has more than 100 attempts, the first 50 and the last 50 are kept
	At     time.Time
	Node   string // the process that has made the attempt
	Error  string
	Trace  string
}

// Group describes the letters that have the same cause.
type Group struct {
	Origin, Consumer, Topic, Class, Cause string

	Letters        int64
	Waiting        int64 // the number of letters that a redrive has chosen, but has not tried yet
	Oldest, Newest time.Time
	UID            string // the UID of one of the letters
}

// Show returns a dead letter with the headers, the payload and the failed deliveries of its message.
func (l *Letters) Show(ctx context.Context, uid string) (Letter, []Attempt, error) {
	found, err := collect(ctx, l.db.Pool(), l.statement("select "+letter.Columns+" from once_deadletter where uid = ?", uid), letter.Scan)
	if err != nil {
		return Letter{}, nil, err
	}
	if len(found) == 0 {
		return Letter{}, nil, ErrNotFound
	}
	stored := &found[0]
	attempts, err := collect(ctx, l.db.Pool(), l.statement(`select attempt, at, node, error, trace from once_deadletter_attempt
 where origin = ? and consumer = ? and source = ? and event_id = ? and (topic = ? and KEY = ? and seq = ? or seq = -1) order by attempt, seq`, stored.Origin, stored.Consumer, stored.Source, stored.EventID, stored.Topic, stored.Key, stored.Seq), scanAttempt)
	if err != nil {
		return Letter{}, nil, err
	}
	failed := stored.Open(l.cfg.Encrypter)
	shown := newLetter(stored)
	if failed == nil {
		shown.Headers, failed = headers(stored)
		shown.Payload = stored.Payload
	}
	return shown, attempts, failed // the other fields are valid even if the payload cannot be read
}

func headers(l *letter.Letter) (h map[string]string, err error) {
	if len(l.Headers) > 0 {
		if err = json.Unmarshal(l.Headers, &h); err != nil {
			return nil, fmt.Errorf("deadletter: the stored headers of letter %s are damaged: %w", l.UID, err)
		}
	}
	return h, nil
}

func scanAttempt(row sqlplane.Row) (a Attempt, err error) {
	err = row.Scan(&a.Number, (*dialect.Time)(&a.At), &a.Node, &a.Error, &a.Trace)
	return a, err
}

// List returns letters in the order in which they were written, without headers and payloads. To get the next
// page, pass next as Filter.After; next is "" on the last page. If f.Most is set, a page may have fewer letters
// than f.Limit although another page follows.
func (l *Letters) List(ctx context.Context, f Filter) (list []Letter, next string, err error) {
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	where, args, err := f.where(l.db.Dialect())
	if err != nil {
		return nil, "", err
	}
	where, args = where+" and uid > ?", append(args, f.After)
	if next, err = l.end(ctx, f); err != nil {
		return nil, "", err
	}
	if next != "" {
		where, args = where+" and uid <= ?", append(args, next)
	}
	query := "select " + letter.ListColumns + " from once_deadletter where " + where + " order by uid limit ?"
	list, err = collect(ctx, l.db.Pool(), l.statement(query, append(args, int64(f.Limit)+1)...), scanLetter)
	if err == nil && len(list) > f.Limit {
		list = list[:f.Limit]
		next = list[f.Limit-1].UID
	}
	return list, next, err
}

// end returns the last letter that f.Most allows to read, or "" if fewer exist.
func (l *Letters) end(ctx context.Context, f Filter) (uid string, err error) {
	all := Filter{State: f.State, After: f.After, Limit: f.Limit, Most: f.Most}
	if f.Most <= 0 || f.UID != "" || f == all { // every letter that is read matches, so Limit bounds the read
		return "", nil
	}
	if f.State == "" {
		f.State = StateDead
	}
	query := l.statement("select uid from once_deadletter where state = ? and uid > ? order by uid limit 1 offset ?", string(f.State), f.After, int64(f.Most))
	err = l.db.Pool().Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(&uid) })
	return uid, err
}

func scanLetter(row sqlplane.Row) (Letter, error) {
	stored, err := letter.Scan(row)
	return newLetter(&stored), err
}

func newLetter(s *letter.Letter) Letter {
	return Letter{
		UID: s.UID, Origin: s.Origin, Consumer: s.Consumer, Source: s.Source, EventID: s.EventID, Topic: s.Topic, Key: s.Key, Type: s.Type, Seq: s.Seq,
		Encrypted: s.Encrypted && !s.Resolved(), Trace: s.Trace, CreatedAt: s.CreatedAt, Class: s.Class, Error: s.Error, Cause: s.Cause, Attempts: s.Attempts,
		FirstFailedAt: s.FirstFailedAt, DeadAt: s.DeadAt, State: State(s.State), Redrive: s.Redrive, RedriveAt: s.RedriveAt, ResolvedAt: s.ResolvedAt, Reason: s.Reason,
	}
}

// Count returns how many letters match f. If Count has read f.Most letters, it stops, and the result more
// is true: further letters may match.
func (l *Letters) Count(ctx context.Context, f Filter) (n int64, more bool, err error) {
	where, args, err := f.where(l.db.Dialect())
	if err != nil {
		return 0, false, err
	}
	n, _, more, err = l.count(ctx, f, where, args, "1 = 1")
	return n, more, err
}

// count counts the letters that meet a condition, and how many of them meet a second condition as well. It reads only letters that f.Most allows.
func (l *Letters) count(ctx context.Context, f Filter, where string, args []any, also string, alsoArgs ...any) (n, both int64, more bool, err error) {
	table, tableArgs := f.table()
	var read int64
	query, all := "select count(*), count(case when "+also+" then 1 end), 0 from "+table+" where "+where, append(slices.Clip(alsoArgs), args...)
	if len(tableArgs) > 0 {
		query = "select count(case when " + where + " then 1 end), count(case when " + where + " and " + also + " then 1 end), count(*) from " + table
		all = slices.Concat(args, args, alsoArgs, tableArgs)
	}
	err = l.db.Pool().Query(ctx, l.statement(query, all...), func(row sqlplane.Row) error { return row.Scan(&n, &both, &read) })
	return n, both, len(tableArgs) > 0 && read >= int64(f.Most), err
}

// Groups returns groups of letters that have the same cause. The result has at most Filter.Limit groups, the
// largest group first.
func (l *Letters) Groups(ctx context.Context, f Filter) ([]Group, error) {
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	where, args, err := f.where(l.db.Dialect())
	if err != nil {
		return nil, err
	}
	table, first := f.table()
	args = append(first, args...)
	query := `select origin, consumer, topic, class, cause, count(*), count(redrive_at), min(dead_at), max(dead_at), min(uid) from ` + table + " where " + where + " group by origin, consumer, topic, class, cause order by count(*) desc, min(uid) limit ?"
	return collect(ctx, l.db.Pool(), l.statement(query, append(args, int64(f.Limit))...), func(row sqlplane.Row) (g Group, err error) {
		err = row.Scan(&g.Origin, &g.Consumer, &g.Topic, &g.Class, &g.Cause, &g.Letters, &g.Waiting, (*dialect.Time)(&g.Oldest), (*dialect.Time)(&g.Newest), &g.UID)
		return g, err
	})
}

// statement returns a query with its arguments. The query is written as package dialect says.
func (l *Letters) statement(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(l.db.Dialect(), query), Args: args}
}

// collect runs a query and scans its rows.
func collect[T any](ctx context.Context, r sqlplane.Runner, s store.Statement, scan func(sqlplane.Row) (T, error)) (list []T, err error) {
	err = r.Query(ctx, s, func(row sqlplane.Row) error {
		one, err := scan(row)
		list = append(list, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
