// Package attemptlog keeps a log of every attempt at an operation, also of attempts that
// have failed and left no record:
//
//	attempts := attemptlog.New(s, attemptlog.Config{}) // s is the SQL store of the engine
//	defer attempts.Close(ctx)
//	engine := once.New(s, once.Config{Observer: once.Observers(once.Log(slog.Default()), attempts)})
//
// Each call that names an operation has one row: how it has ended, in which
// state it has found and left the operation, how long that took, and which client and node made it. The key
// is in it as a hash ([once.KeyHash]), and errors as a short code: neither a client's
// data nor a database's message about it gets into the log. "once keys show KEY"
// prints the rows of a key.
//
// The log never blocks a request. It is written in batches, behind the
// requests and outside of their transactions, on one connection at a time. (On SQLite,
// which has one writer, a batch takes its turn as a request does.) While the
// database cannot be reached, attempts are kept in memory; when the buffer is full,
// new ones are dropped, and a row with outcome "dropped" says how many and when.
// A process that is killed loses the attempts that it has not written yet: no more than
// Config.Interval's worth while the database keeps up, and Config.Buffer attempts in
// any case. So a missing row does not prove that no attempt was made; the record of the
// operation, which is committed with its effect, is the proof of that.
//
// Some work never becomes an operation, and so is not an attempt: HTTP requests that are refused
// before their key is known to be one (401, a missing or malformed key, a body that is
// too large), and work without a key.
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

// Defaults of [Config].
const (
	DefaultBatch    = 256
	DefaultBuffer   = 8192 // some 2 MiB, and the texts
	DefaultInterval = time.Second
	DefaultRetain   = 30 * 24 * time.Hour
)

// OutcomeDropped is the outcome of a row that counts attempts which have no row.
const OutcomeDropped = "dropped"

// writeTimeout bounds each statement of the log.
const writeTimeout = 5 * time.Second

// Config of a [Log]. The zero value is ready to use.
type Config struct {
	// Batch is how many attempts are written at once, and at which number they are
	// written without waiting for Interval. Default 256.
	Batch int

	// Interval is how long an attempt waits for others. Default 1 s.
	Interval time.Duration

	// Buffer is how many attempts are kept in memory while they cannot be written.
	// Default 8192.
	Buffer int

	// Retain is how long attempts are kept, by the database's clock. The log itself
	// deletes older ones, some thousands at a time. Negative: for ever. Default 30
	// days.
	Retain time.Duration

	// Node is the name of this process in its rows. Default: the host's name.
	Node string

	// Failed receives the error when the log cannot be written or swept, once for each outage,
	// and must not block. Default: a warning to [slog.Default].
	Failed func(error)
}

// Log is an [once.Observer] that writes attempts to a database. Share it between
// engines of one database; use [once.Observers] to combine it with other observers.
type Log struct {
	journal journal
	cfg     Config

	mu      sync.Mutex
	queue   queue
	id      [16]byte // of the next attempt: the first half is this log's own, the second counts
	dropped int64
	told    int64 // of these, in rows or after the end
	closed  bool

	full chan struct{} // a batch is waiting
	quit chan struct{}
	done chan struct{}
	stop context.CancelFunc

	failing error     // of the last write; the writer's own
	sweepAt time.Time // the writer's own
}

var _ once.Observer = (*Log)(nil)

// journal keeps attempts: it is an *attempts.Table.
type journal interface {
	Write(ctx context.Context, list []attempts.Attempt) error
	Sweep(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// New returns a log that writes to db, which is a *pgxstore.Store or *sqlstore.Store and has been
// migrated. It panics if cfg is invalid. Its goroutine ends with [Log.Close].
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

// Observe implements [once.Observer]. It notes the end of a call in memory and
// returns; nothing is waited for.
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
		l.dropped, l.told = l.dropped+1, l.told+1 // no row: there would be no end of them
	case l.queue.n == len(l.queue.list):
		l.dropped++
	default:
		l.push(&a)
	}
}

// push queues a, for which there is room.
func (l *Log) push(a *attempts.Attempt) {
	a.ID, a.Ended = l.id, time.Now()
	binary.BigEndian.PutUint64(l.id[8:], binary.BigEndian.Uint64(l.id[8:])+1)
	l.queue.push(a)
	if l.queue.n == l.cfg.Batch {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
}

// Dropped returns how many attempts were not noted since the start, because there was
// no room, or because the log was closed.
func (l *Log) Dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Close writes the noted attempts and ends the log. It does not try again if they cannot be
// written, and waits no longer than ctx lasts; the error says how many attempts may
// be lost. Later attempts are dropped. Close it when the server has
// stopped and before its database is closed.
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
