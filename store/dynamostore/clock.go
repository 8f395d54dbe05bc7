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

// Each answer of the service has the time in whole seconds, and a condition cannot read the service's clock. So the time is estimated
// from an answer and the time since. The estimate is ahead of the service only by the drift of the process's clock, which these
// bounds keep small.
const (
	window    = 30 * time.Second // how long the best answer is used: the one that gives the latest time
	trustFor  = 5 * time.Minute  // how long an answer is used if no other answer comes
	maxFrozen = time.Second      // how long the process may have been stopped without being noticed
)

// clock estimates the time of the service.
type clock struct {
	mu           sync.Mutex
	best, before sample // the best answers of this window and of the window before
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
	// An answer without a readable Date tells nothing. The next answer may have one.
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.localNow()
	if now.Sub(c.began) > window {
		c.before, c.best, c.began = c.best, sample{}, now
	}
	// A Date is cut to whole seconds, so each estimate is late by up to a second. The latest estimate is the nearest one.
	if t, ok := c.best.at(now); !ok || d.After(t) {
		c.best = sample{date: d, heard: now}
	}
}

// at estimates the time of the service at a moment of the process. ok is false if the estimate cannot be relied on: functions and
// machines are frozen at times, and the clock of a frozen process stops or is set.
func (s sample) at(now time.Time) (time.Time, bool) {
	since := now.Sub(s.heard)
	return s.date.Add(since), !s.heard.IsZero() && trusted(since, now.Round(0).Sub(s.heard.Round(0)))
}

// trusted reports whether an answer can still be used, given the time since it by the two clocks of a process.
func trusted(monotonic, wall time.Duration) bool {
	// The wall clock runs on while a process is frozen, and the monotonic clock may not. A difference shows that it was frozen.
	return monotonic <= trustFor && (wall-monotonic).Abs() <= maxFrozen
}

// estimate returns the time of the service. ok is false if no usable answer is known.
func (c *clock) estimate() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.localNow()
	t, ok := c.best.at(now)
	// A new window may have only a poor answer yet, so the answer of the window before still counts.
	if b, known := c.before.at(now); known && (!ok || b.After(t)) {
		return b, true
	}
	return t, ok
}

var errNoDate = errors.New("dynamostore: the answers of the DynamoDB service have no Date header, so the store does not know the time. Try: check the proxies between this process and DynamoDB")

// now returns the time of the service. If no answer was received lately, now sends a request.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	if t, ok := s.clock.estimate(); ok {
		return t, nil
	}
	// No item has this id: only the Date of the answer is needed.
	if _, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: item{"id": text("clock")}}); err != nil {
		return time.Time{}, failedRead(err)
	}
	return s.heard()
}

// heard returns the time of the service. The caller has just received an answer, so no request is needed.
func (s *Store) heard() (time.Time, error) {
	t, ok := s.clock.estimate()
	if !ok {
		return t, &store.Error{Kind: store.KindUnavailable, Err: errNoDate}
	}
	return t, nil
}
