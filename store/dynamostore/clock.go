package dynamostore

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncelib/once/store"
)

// Each answer of the service has the time in whole seconds, and a condition cannot read the clock. So the time is estimated from an answer and the
// time since. The estimate is ahead of the service only by the drift of the process's clock, which these bounds keep small.
const (
	window    = 30 * time.Second // how long the answer that was nearest to a full second is used
	trustFor  = 5 * time.Minute  // how long an answer is used if no other comes
	maxFrozen = time.Second      // how long the process may have been stopped without being noticed
)

// clock estimates the time of the service.
type clock struct {
	mu           sync.Mutex
	best, before sample // of this window and of the one before
	began        time.Time
	local        func() time.Time // nil: time.Now
}

// sample is one answer.
type sample struct {
	date  time.Time // of the service
	heard time.Time // by the process
}

func (c *clock) localNow() time.Time {
	if c.local != nil {
		return c.local()
	}
	return time.Now()
}

// hear notes the Date of an answer.
func (c *clock) hear(date string) {
	d, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.localNow()
	if now.Sub(c.began) > window {
		c.before, c.best, c.began = c.best, sample{}, now
	}
	if t, ok := c.best.at(now); !ok || d.After(t) {
		c.best = sample{date: d, heard: now}
	}
}

// at estimates the time of the service at a moment of the process. ok is false if the estimate cannot be relied on: a process that was
// frozen, as functions and machines are, has a clock that has stood still or has been set.
func (s sample) at(now time.Time) (time.Time, bool) {
	since := now.Sub(s.heard)
	return s.date.Add(since), !s.heard.IsZero() && trusted(since, now.Round(0).Sub(s.heard.Round(0)))
}

// trusted compares the time since an answer by the two clocks of a process.
func trusted(monotonic, wall time.Duration) bool {
	return monotonic <= trustFor && (wall-monotonic).Abs() <= maxFrozen
}

// estimate returns the time of the service, if it is known.
func (c *clock) estimate() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.localNow()
	t, ok := c.best.at(now)
	if b, known := c.before.at(now); known && (!ok || b.After(t)) {
		return b, true
	}
	return t, ok
}

var errNoDate = errors.New("dynamostore: the answers of the DynamoDB service have no Date header, so the store does not know the time. Try: check the proxies between this process and DynamoDB")

// now returns the time of the service. If nothing was heard of it lately, it is asked.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	if t, ok := s.clock.estimate(); ok {
		return t, nil
	}
	if _, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: item{"id": text("clock")}}); err != nil {
		return time.Time{}, failedRead(err)
	}
	return s.heard()
}

// heard returns the time of the service after an answer.
func (s *Store) heard() (time.Time, error) {
	t, ok := s.clock.estimate()
	if !ok {
		return t, &store.Error{Kind: store.KindUnavailable, Err: errNoDate}
	}
	return t, nil
}
