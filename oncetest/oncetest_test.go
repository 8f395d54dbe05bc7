package oncetest_test

// The tests with databases are in integration/oncetest: "make test-of DIR=oncetest" runs them after these.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/memstore"
)

// refunds is work in memory.
func refunds(t *testing.T) (w oncetest.Work, count func() int) {
	t.Helper()
	s := memstore.New()
	count = func() int {
		text, _ := s.Get("refunds")
		n, _ := strconv.Atoi(text)
		return n
	}
	return oncetest.Work{
		Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
			e := once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard})
			return func(ctx context.Context, op once.Operation) (any, error) {
				r, err := once.Do(ctx, e, op, func(_ context.Context, tx *memstore.Tx) (string, error) {
					text, _, err := tx.Get("refunds")
					if err != nil {
						return "", err
					}
					n, _ := strconv.Atoi(text)
					return "refunded", tx.Put("refunds", strconv.Itoa(n+1))
				})
				return r.Value, err
			}
		},
		Count: map[string]func() int{"refunds": count},
		Skip:  []oncetest.Fault{oncetest.FaultNotSent, oncetest.FaultNotAnswered, oncetest.FaultDeath},
	}, count
}

// TestWorkInMemory: a program without SQL and connections is tested with the faults of its store.
func TestWorkInMemory(t *testing.T) {
	w, count := refunds(t)
	oncetest.Do(t, w)
	if n := count(); n < 10 {
		t.Errorf("vacuous: %d refunds", n)
	}
}

// TestAFaultMustStrike: a kind of fault that has struck nowhere, and is not left out, is a failure.
func TestAFaultMustStrike(t *testing.T) {
	w, _ := refunds(t)
	w.Skip = w.Skip[1:] // there is no connection that could break before a write
	tb := &said{TB: t}
	oncetest.Do(tb, w)
	if text := fmt.Sprint(tb.texts...); len(tb.texts) != 1 || !strings.Contains(text, "no fault of the kind") {
		t.Errorf("it says %q", text)
	}
}

// TestAMismatchMustBeTaken: a handler that compares nothing is found, whatever its body is. If the changed body is one that it never takes, or there is nothing
// to change, the test asks for another one.
func TestAMismatchMustBeTaken(t *testing.T) {
	for _, c := range []struct{ body, other, want string }{
		{"1000", "", "a changed request with the key of the first one is answered 200"},
		{`{"ok":true}`, "", "the changed request is refused with a key of its own too: answered 400"},
		{`{"ok":true}`, `{"ok":false}`, "a changed request with the key of the first one is answered 200"},
		{"{}", "", "neither a digit nor a letter"},
	} {
		var mu sync.Mutex
		done := map[string]bool{}
		request := func(body string) *http.Request {
			return httptest.NewRequest(http.MethodPost, "http://shop.test/charges", strings.NewReader(body))
		}
		s := oncetest.Service{
			Request: func() *http.Request { return request(c.body) },
			Count:   map[string]func() int{"charges": func() int { mu.Lock(); defer mu.Unlock(); return len(done) }},
			Skip:    []oncetest.Fault{oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultNotSent, oncetest.FaultNotAnswered, oncetest.FaultDeath},
			Start: func(*oncetest.Process) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if body, err := io.ReadAll(r.Body); err != nil || !json.Valid(body) {
						http.Error(w, "no JSON", http.StatusBadRequest)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					done[r.Header.Get("Idempotency-Key")] = true
					fmt.Fprint(w, "charged")
				})
			},
		}
		if c.other != "" {
			s.Other = func() *http.Request { return request(c.other) }
		}
		if texts := complaints(t, func(tb testing.TB) { oncetest.HTTP(tb, s) }); len(texts) != 1 || !strings.Contains(fmt.Sprint(texts...), c.want) {
			t.Errorf("%s, %s: it says %q, and not %q", c.body, c.other, texts, c.want)
		}
	}
}

// said keeps the errors of a test in place of failing.
type said struct {
	testing.TB

	texts []any
}

func (s *said) Error(args ...any) { s.texts = append(s.texts, args...) }

func (s *said) Errorf(format string, args ...any) { s.Error(fmt.Sprintf(format, args...)) }

func (s *said) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

// complaints runs a test, and returns what it says.
func complaints(t *testing.T, test func(tb testing.TB)) []any {
	t.Helper()
	tb, done := &said{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		test(tb)
	}()
	<-done
	return tb.texts
}

// TestProviderHasOneEffectPerKey: a provider that dedupes has one effect for a key, also if an answer is lost, and complains if the key comes with another request.
func TestProviderHasOneEffectPerKey(t *testing.T) {
	for _, dedupes := range []bool{true, false} {
		tb := &said{TB: t}
		p := oncetest.NewProvider(tb, oncetest.ProviderConfig{Dedupes: dedupes})
		send := func(body string) error {
			r := httptest.NewRequest(http.MethodPost, "http://bank.test/charges", strings.NewReader(body))
			r.Header.Set("Idempotency-Key", "k")
			resp, err := p.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		p.LoseAnswers(1)
		if send("5") == nil {
			t.Error("the answer is not lost")
		}
		if err := send("5"); err != nil {
			t.Error(err)
		}
		want := 2
		if dedupes {
			want = 1
		}
		if n := p.Effects(); n != want || len(tb.texts) != 0 {
			t.Errorf("dedupes %v: %d effects, %v", dedupes, n, tb.texts)
		}
		if err := send("6"); err != nil || len(tb.texts) != 1 {
			t.Errorf("another request with the key: %v, %v", err, tb.texts)
		}
	}
}
