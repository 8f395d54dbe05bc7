package oncehttp_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
)

// TestStaleRetry: 412 once the answer may be forgotten, and not before.
func TestStaleRetry(t *testing.T) {
	for _, byKey := range []bool{false, true} {
		s := start(t, setup{Config: oncehttp.Config{Retain: time.Hour, KeyTime: byKey}, engine: once.Config{Skew: time.Minute}}, create)
		key := once.NewKey()
		header := []string{"Once-First-Sent", strconv.FormatInt(time.Now().UnixMilli(), 10), "Once-Attempt", "1"}
		if byKey {
			header = nil
		}
		for _, want := range []string{"stored", "replayed"} {
			if got := s.post(key, "", header...); got.status != 201 || got.idempotency() != want {
				t.Fatalf("%+v", got)
			}
		}
		s.store.Advance(2 * time.Hour)
		got := s.post(key, "", header...)
		if p := got.problem(t); got.status != 412 || p.Code != oncehttp.ProblemStale || p.Retryable || p.SafeNewKey || s.runs.Load() != 1 {
			t.Errorf("%+v, %d runs", got, s.runs.Load())
		}
		if byKey { // the header knows better than the key
			if got := s.post(key, "", "Once-First-Sent", time.Now().Add(2*time.Hour).Format(time.RFC3339)); got.status != 400 {
				t.Errorf("%+v", got)
			}
			key = "refund:42" // and a key that is no time is as ever
		}
		if got := s.post(key+"-other", ""); got.status != 201 {
			t.Errorf("a request that does not say: %+v", got)
		}
	}
}

// TestFirstSentInvalid: what cannot be understood is not ignored.
func TestFirstSentInvalid(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Optional: true}}, create)
	for _, value := range []string{
		"", "x", "-1", "1767225600", "2026-01-01", "0001-01-01T00:00:00Z", "9223372036854775807", "99999999999999999999",
		time.Now().Add(time.Hour).Format(time.RFC3339),
	} {
		got := s.post("k", "", "Once-First-Sent", value)
		if p := got.problem(t); got.status != 400 || p.Code != problemFirstSentInvalid || p.Retryable || p.SafeNewKey {
			t.Errorf("%q: %+v", value, got)
		}
	}
	now := time.Now().Format(time.RFC3339)
	if got := s.post("k", "", "Once-First-Sent", now, "Once-First-Sent", now); got.status != 400 {
		t.Errorf("two lines: %+v", got)
	}
	if got := s.send(http.MethodPost, "/", "", "Once-First-Sent", now); got.status != 201 || got.idempotency() != "ignored" {
		t.Errorf("without a key: %+v", got)
	}
	if n := s.runs.Load(); n != 1 {
		t.Errorf("the handler has run %d times", n)
	}
}
