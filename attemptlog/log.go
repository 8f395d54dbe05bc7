// Package attemptlog writes a log of all attempts at operations to a table. The log also has the failed attempts for which the engine stores no
// record:
//
//	attempts := attemptlog.New(s, attemptlog.Config{}) // s is the SQL store of the engine
//	defer attempts.Close(ctx)
//	engine := once.New(s, once.Config{Observer: once.Observers(once.Log(slog.Default()), attempts)})
//
// The log has one row for each call of the engine with an operation. Each row has the outcome of the call, the states of the operation before and
// after the call, the duration of the call, and the client and the node that made the call. Each row has a hash of the key ([once.KeyHash]), and a
// short code instead of the text of an error. So the log contains neither data of clients nor error messages of the database, because such a message
// may contain data of clients. The command "once keys show KEY" prints the rows of a key.
//
// The log never delays a request. The log writes attempts in batches, after the requests and outside of their transactions. The log uses at most one
// connection at a time. SQLite allows only one writer at a time, so on SQLite a batch waits until other writers have finished. While the database
// cannot be reached, attempts stay in memory. When the buffer in memory is full, new attempts are dropped. The log later writes a row with the
// outcome "dropped", which says how many attempts were dropped, and when.
//
// If a process is killed, its attempts that are not written yet are lost. If the database is fast enough, a killed process loses at most the attempts
// of one Config.Interval. A killed process never loses more than Config.Buffer attempts. So a missing row does not prove that no attempt was made.
// Only the record of the operation proves an effect, because the record and the effect are committed together.
//
// Requests that never become an operation are not logged: HTTP requests that are refused before their key is accepted (401, a missing or malformed
// key, a body that is too large), and requests without a key.
package attemptlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/store/sqlplane"
)

// The constants are the defaults of the fields of [Config].
const (
	DefaultBatch    = 256
	DefaultBuffer   = 8192 // so many attempts need about 2 MiB of memory, plus the memory for their texts
	DefaultInterval = time.Second
	DefaultRetain   = 30 * 24 * time.Hour
)

// OutcomeDropped is the outcome of a row that says how many attempts were dropped. A
// dropped attempt has no row.
const OutcomeDropped = "dropped"

// writeTimeout bounds each statement of the log.
const writeTimeout = 5 * time.Second

// Config configures a [Log]. The zero value of Config is ready to use.
type Config struct {
	// Batch is the largest number of attempts that one statement writes. As soon as this number of attempts waits, the log writes these attempts,
	// even before Interval has passed. Default: 256.
	Batch int

	// Interval is the longest time that an attempt waits in memory, so that the log can write several attempts together. Default: 1 s.
	Interval time.Duration

	// Buffer is the largest number of attempts that are kept in memory while they cannot be written. Default: 8192.
	Buffer int

	// Retain is how long attempts are kept, by the database's clock. The log deletes older attempts itself, a few thousand at a time. If Retain is
	// negative, attempts are kept for ever. Default: 30 days.
	Retain time.Duration

	// Node is the name of this process in the rows that this process writes. Default: the name of the host.
	Node string

	// Failed is called with the error if attempts cannot be written or deleted, one time for each outage. Failed must not block. Default: the error
	// is logged as a warning by [slog.Default].
	Failed func(error)
}

// Log is a [once.Observer] that writes attempts to a database. Use one Log for all engines of a database, and [once.Observers] to combine the Log
// with other observers.
type Log struct {
	journal journal
	cfg     Config

	mu      sync.Mutex
	queue   queue
	id      [16]byte // of the next attempt: the first half identifies this log, the second half counts
	dropped int64
	told    int64 // dropped attempts that need no further row: a row counts them, or they came after Close
	closed  bool

	full chan struct{} // signals that a batch is waiting
	quit chan struct{}
	done chan struct{}
	stop context.CancelFunc

	failing error     // the error of the last write; only run uses it until done is closed
	sweepAt time.Time // when to sweep next; only run uses it
}

var _ once.Observer = (*Log)(nil)

// journal stores attempts: it is an *attempts.Table, or a fake in tests.
type journal interface {
	Write(ctx context.Context, list []attempts.Attempt) error
	Sweep(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// New returns a log that writes to db, a *pgxstore.Store or *sqlstore.Store that was migrated with [Migrations]. New starts a goroutine, which
// [Log.Close] ends. New panics if cfg is invalid.
func New(db sqlplane.Database, cfg Config) *Log { return newLog(attempts.New(db), cfg) }

func newLog(journal journal, cfg Config) *Log {
	if cfg.Batch < 0 || cfg.Buffer < 0 || cfg.Interval < 0 {
		panic(fmt.Sprintf("attemptlog: New: Batch %d, Buffer %d and Interval %v must not be negative", cfg.Batch, cfg.Buffer, cfg.Interval))
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = DefaultBuffer
	}
	if cfg.Batch == 0 {
		cfg.Batch = DefaultBatch
	}
	cfg.Batch = min(cfg.Batch, cfg.Buffer)
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Retain == 0 {
		cfg.Retain = DefaultRetain
	}
	if cfg.Node == "" {
		cfg.Node, _ = os.Hostname() // without a name the column is empty
	}
	cfg.Node = short(cfg.Node, maxID)
	if cfg.Failed == nil {
		cfg.Failed = func(err error) {
			slog.Default().Warn("once: the attempt log could not write attempts to the database, and waits before it tries again", "error", err)
		}
	}
	l := &Log{
		journal: journal, cfg: cfg, queue: queue{list: make([]attempts.Attempt, cfg.Buffer)},
		full: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	rand.Read(l.id[:8])
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.run(ctx)
	return l
}

// Observe implements [once.Observer]. Observe stores the event of a finished call of the engine in memory, and never waits.
func (l *Log) Observe(_ context.Context, e once.Event) {
	if e.Type != once.EventFinished || e.KeyHash == "" {
		return
	}
	a := attemptOf(e)
	a.Node = l.cfg.Node
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		l.dropped, l.told = l.dropped+1, l.told+1 // without a row: otherwise Close would have another row to write after each write
	case l.queue.n == len(l.queue.list):
		l.dropped++
	default:
		l.push(&a)
	}
}

// push adds a to the queue. The caller has checked that there is room.
func (l *Log) push(a *attempts.Attempt) {
	a.ID, a.Ended = l.id, time.Now()
	binary.BigEndian.PutUint64(l.id[8:], binary.BigEndian.Uint64(l.id[8:])+1)
	l.queue.push(a)
	if l.queue.n == l.cfg.Batch {
		select {
		case l.full <- struct{}{}:
		// The signal is already set, and run has not taken it yet.
		default:
		}
	}
}

// Dropped returns how many attempts were dropped since New, because the buffer was full or the log was closed.
func (l *Log) Dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Close writes the attempts in memory and ends the log. If a write fails, Close does not repeat the write. If ctx ends before all attempts are
// written, Close returns immediately. The error of Close says how many attempts may be lost. The log drops attempts that end after the call of
// Close. Call Close after the server has stopped and before the database is closed.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.quit)
	}
	l.mu.Unlock()
	var cause error
	select {
	case <-l.done:
		// done is closed, so run no longer writes failing.
		cause = l.failing
	case <-ctx.Done():
		cause = ctx.Err()
		l.stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.n == 0 {
		return nil
	}
	return fmt.Errorf("attemptlog: %d attempts may not have been written to the database when the log was closed: %w. Try: close the log before the database, and give Close a longer context", l.queue.n, cause)
}
