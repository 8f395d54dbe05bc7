package dynamostore

import (
	"net/http"
	"testing"
	"time"
)

// TestClockIsNeverAhead: the estimate is never ahead of the service, is near it after a few answers, and is given up when the process may have been
// frozen or has heard nothing for long.
func TestClockIsNeverAhead(t *testing.T) {
	service := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	local := time.Now()
	c := &clock{local: func() time.Time { return local }}
	pass := func(d time.Duration) { service, local = service.Add(d), local.Add(d) }
	hear := func() { c.hear(service.Format(http.TimeFormat)) }
	if _, ok := c.estimate(); ok {
		t.Error("known before an answer")
	}
	for i := range 300 {
		pass(370 * time.Millisecond)
		hear()
		got, ok := c.estimate()
		if behind := service.Sub(got); !ok || behind < 0 || behind > time.Second || i > 3 && behind > 500*time.Millisecond {
			t.Fatalf("answer %d: %v behind, known %t", i, behind, ok)
		}
	}
	pass(trustFor - window)
	if got, ok := c.estimate(); !ok || service.Before(got) {
		t.Errorf("some minutes later: %v, %t, and it is %v", got, ok, service)
	}
	pass(trustFor)
	if _, ok := c.estimate(); ok {
		t.Error("believed although nothing was heard for long")
	}
	hear()
	local = time.Unix(0, local.Add(2*time.Second).UnixNano()) // the clock of the process has no monotonic part that tells
	c.best.heard = c.best.heard.Round(0)
	if got, _ := c.estimate(); got.Before(service) {
		t.Errorf("%v, and it is %v", got, service)
	}
	c.hear("no date")
	c.hear("")
}

// TestFrozenProcessAsksAgain: a process whose monotonic clock has stood still asks again.
func TestFrozenProcessAsksAgain(t *testing.T) {
	heard := time.Now()
	s := sample{date: time.Now(), heard: heard}
	if _, ok := s.at(heard.Add(time.Minute)); !ok {
		t.Error("not believed after a minute")
	}
	for _, d := range []time.Duration{2 * time.Second, 24 * time.Hour, -2 * time.Second} {
		if trusted(time.Minute, time.Minute+d) {
			t.Errorf("believed although the clocks differ by %v", d)
		}
	}
	if !trusted(time.Minute, time.Minute+maxFrozen/2) || trusted(trustFor+1, trustFor+1) {
		t.Error("a small difference, or a long time")
	}
}
