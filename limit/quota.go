package limit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// QuotaConfig configures a [Quota].
type QuotaConfig struct {
	// Bytes is the largest number of bytes that a principal may have stored. The stored answers and requests of operations count, plus
	// [upkeep.RecordSize] bytes for each operation, until the retention of the operation is over. Required.
	Bytes int64

	// Every is the time between the beginnings of two counts of the stored bytes of all principals. Every should be longer than a count takes, and
	// much shorter than the retention of operations. Default: one minute.
	Every time.Duration

	// Log gets a warning when a count fails, or when a count takes so long that for some time no count is valid. The warning is not repeated until a
	// count has succeeded in time. Default: [slog.Default].
	Log *slog.Logger
}

// Quota limits the bytes that each principal (the owner of keys, usually a tenant: see oncehttp.Config) has stored. If a principal is above the
// limit, its new operations are refused with 429, RATE_LIMIT.stored_bytes, before their handlers run. A Quota never refuses replays, undos and
// operations that have a record. One Quota may serve any number of routes.
//
//	quota := limit.NewQuota(engine.Store(), limit.QuotaConfig{Bytes: 100 << 20})
//	go quota.Run(ctx)
//	cfg := oncehttp.Config{Principal: account, Quota: quota}
//
// A quota adds no SQL statement to the execution of an operation. [Quota.Run] counts the stored bytes in the background, and bytes that this process
// stores are added to the count at once. A principal can exceed the limit QuotaConfig.Bytes, because the count does not yet contain two things: bytes
// that other processes store between two counts, and the answers of requests that are being served. Bytes that are stored during a count may be
// counted twice until the next count. A count is valid for three times QuotaConfig.Every, from the beginning of the count. Without a valid count a
// Quota refuses no request.
type Quota struct {
	cfg      QuotaConfig
	measurer upkeep.Measurer

	mu      sync.Mutex
	counted map[string]int64 // bytes of each principal by the last count, without principals that have few
	added   map[string]int64 // bytes that this process has added since that count began
	since   map[string]int64 // bytes that this process has added since the running count began; nil: no count runs
	at      time.Time        // the beginning of the last count that has succeeded; zero: no count has succeeded yet
	due     time.Time        // about when the next count begins
	trouble string           // the warning about the last count; "": it has succeeded in time
	running bool             // Run was called, or the warning that it was not called is in the log
	made    time.Time
	refused uint64
}

const (
	defaultQuotaEvery = time.Minute
	quotaPage         = 2_000            // operations that one statement reads; few, because InnoDB reads their answers for it
	quotaTimeout      = 10 * time.Second // the time limit of one statement
	quotaRest         = 4                // the pause after a statement, as a multiple of its duration
	quotaRounds       = 3                // how long a count is valid after its beginning, as a multiple of Every
	quotaAdded        = 100_000          // principals that are remembered between two counts
)

// NewQuota returns a quota for routes whose engine uses the store s. NewQuota panics if cfg is invalid, or if s does not implement [upkeep.Measurer],
// which measures the size of the stored contents. The stores on Redis and DynamoDB do not implement upkeep.Measurer.
func NewQuota(s any, cfg QuotaConfig) *Quota {
	m, ok := dialect.Measurer(s)
	switch {
	case !ok:
		panic(fmt.Sprintf("limit: NewQuota: the store %T cannot report how much is stored.\nTry: a store in an SQL database. For other stores, use MaxStored and a shorter Retain of oncehttp.Config.", s))
	case cfg.Bytes <= 0 || cfg.Every < 0:
		panic(fmt.Sprintf("limit: NewQuota: Bytes %d must be positive, and Every %v must not be negative.\nTry: Bytes such as 100 << 20, and 0 for Every, which means one minute.", cfg.Bytes, cfg.Every))
	}
	cfg.Every = cmp.Or(cfg.Every, defaultQuotaEvery)
	return &Quota{cfg: cfg, measurer: m, counted: map[string]int64{}, added: map[string]int64{}, made: time.Now()}
}

// Run counts the stored bytes every QuotaConfig.Every until ctx ends, and returns the error of ctx.
func (q *Quota) Run(ctx context.Context) error {
	q.mu.Lock()
	q.running = true
	q.mu.Unlock()
	for ctx.Err() == nil {
		began := time.Now()
		q.end(ctx, q.count(ctx, began), began)
		q.pause(ctx, q.cfg.Every-time.Since(began))
	}
	return ctx.Err()
}

// count reads all operations, in pages. The pauses between pages leave the database to others.
func (q *Quota) count(ctx context.Context, began time.Time) error {
	q.mu.Lock()
	q.since = map[string]int64{}
	q.mu.Unlock()
	counted := map[string]int64{}
	var principal string
	var bytes int64
	note := func() {
		if bytes > q.cfg.Bytes/100 { // many principals have few bytes: leaving them out saves memory
			counted[principal] = bytes
		}
	}
	for after := (store.ID{}); ; {
		asked := time.Now()
		list, next, err := q.page(ctx, after)
		if err != nil {
			return err
		}
		for _, s := range list { // scopes of one principal come one after the other
			if p := principalOf(s.Scope); p != principal {
				note()
				principal, bytes = p, 0
			}
			bytes += s.Bytes
		}
		if next.IsZero() {
			break
		}
		after = next
		q.pause(ctx, quotaRest*time.Since(asked))
	}
	note()
	q.mu.Lock()
	defer q.mu.Unlock()
	// The count may lack operations that were stored while it ran, so their bytes are kept.
	q.counted, q.added, q.at = counted, q.since, began
	return nil
}

func (q *Quota) page(ctx context.Context, after store.ID) (list []upkeep.Stored, next store.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, quotaTimeout)
	defer cancel()
	return q.measurer.Stored(ctx, after, quotaPage)
}

// end notes the end of a count. It logs the first of several failures, and the first of several counts that take too long.
func (q *Quota) end(ctx context.Context, err error, began time.Time) {
	took, trouble, why := time.Since(began), "", slog.Any("error", err)
	switch {
	case ctx.Err() != nil: // the end of ctx is no failure of the count
	case err != nil:
		trouble = "limit: the quota cannot count the stored bytes of the principals, and soon refuses no more requests. Try: check that the database is reachable"
	case 2*took > quotaRounds*q.cfg.Every: // this count becomes too old before the next one, which may take as long, has ended
		trouble = "limit: a count of the stored bytes of the principals takes so long that the quota cannot refuse requests all the time. Try: a QuotaConfig.Every that is longer than a count takes"
		why = slog.Duration("took", took)
	}
	q.mu.Lock()
	first := trouble != "" && trouble != q.trouble
	q.since, q.trouble, q.due = nil, trouble, began.Add(q.cfg.Every)
	q.mu.Unlock()
	if first {
		q.log().WarnContext(ctx, trouble, why)
	}
}

func (q *Quota) log() *slog.Logger {
	if q.cfg.Log != nil {
		return q.cfg.Log
	}
	return slog.Default()
}

func (q *Quota) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// principalOf returns the principal at the beginning of a scope, or the whole scope if it has no blank.
func principalOf(scope string) string {
	principal, _, _ := strings.Cut(scope, " ")
	return principal
}

// Admit reports whether an operation in scope may begin. If ok is false, after is the time after which the client can try again. Only transports,
// such as package oncehttp, call Admit. The function begun reports whether the operation has a record already; an operation with a record is not
// refused. Admit calls begun only if the quota is used up.
func (q *Quota) Admit(scope string, begun func() bool) (after time.Duration, ok bool) {
	after, full := q.full(scope)
	if !full || begun() {
		return 0, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused++
	return after, false
}

// full reports whether the principal of scope has used up its quota, and after which time to try again.
func (q *Quota) full(scope string) (after time.Duration, full bool) {
	p := principalOf(scope)
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	switch {
	case q.at.IsZero(), now.Sub(q.at) > quotaRounds*q.cfg.Every:
		// Without a valid count no request is refused: the quota must not become an outage. An old count is not valid, because the rows that it has
		// counted expire, while added only grows.
		return 0, false
	case q.counted[p]+q.added[p] < q.cfg.Bytes:
		return 0, false
	}
	return max(q.due.Sub(now), time.Second), true
}

// Add records that an operation in scope has stored the given number of bytes. In addition, Add counts [upkeep.RecordSize] bytes for the operation.
// Only transports, such as package oncehttp, call Add.
func (q *Quota) Add(ctx context.Context, scope string, bytes int) {
	if q.forgotten() {
		q.log().WarnContext(ctx, "limit: the quota does not count the stored bytes of the principals, and refuses no requests. Try: go quota.Run(ctx)")
	}
	p, n := principalOf(scope), int64(upkeep.RecordSize+bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range []map[string]int64{q.added, q.since} { // above quotaAdded, further principals are not counted until the next count
		if _, known := m[p]; m != nil && (known || len(m) < quotaAdded) {
			m[p] += n
		}
	}
}

// forgotten returns true if Run was not called, but only once.
func (q *Quota) forgotten() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running || time.Since(q.made) < q.cfg.Every {
		return false
	}
	q.running = true
	return true
}

// Gauges implements [gauge.Source]. Gauges returns how many bytes the principal with the most bytes has stored, and how many requests were refused.
// Gauges sends no statement to the database, and does not reveal names of principals.
func (q *Quota) Gauges(context.Context) ([]gauge.Value, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var most int64
	for _, of := range []map[string]int64{q.counted, q.added} {
		for p := range of {
			most = max(most, q.counted[p]+q.added[p])
		}
	}
	return []gauge.Value{{Name: gaugename.QuotaLargestBytes, Number: float64(most)}, {Name: gaugename.QuotaRefused, Number: float64(q.refused)}}, nil
}
