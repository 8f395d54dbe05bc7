package attemptlog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestEveryOutcomeHasARow: also those that leave no record.
func TestEveryOutcomeHasARow(t *testing.T) {
	const key = "card 4111-1111"
	s := memstore.New()
	j := new(fakeJournal)
	l := newLog(j, Config{Node: "n1"})
	e := once.New(s, once.Config{Observer: l})
	attempts := 0
	do := func(fn func(context.Context, *memstore.Tx) (string, error), asked string) {
		defer func() { _ = recover() }()
		attempts++
		op := once.Operation{Scope: "s", Key: key, Fingerprint: once.FingerprintOf([]byte(asked)), Attempt: once.Attempt{RequestID: "r", CorrelationID: "c", Number: attempts}}
		_, _ = once.Do(t.Context(), e, op, fn)
	}
	fail := func(err error) func(context.Context, *memstore.Tx) (string, error) {
		return func(context.Context, *memstore.Tx) (string, error) { return "", err }
	}
	do(fail(errors.New(key)), "a")
	do(fail(state("23505")), "a")
	do(fail(&store.Error{Kind: store.KindRetry, Err: errors.New(key)}), "a")
	do(func(context.Context, *memstore.Tx) (string, error) { panic(key) }, "a")
	do(func(_ context.Context, tx *memstore.Tx) (string, error) { _ = tx.Insert("", ""); return "", nil }, "a")
	do(fail(nil), "a")
	do(fail(nil), "b")
	if _, err := once.Do(t.Context(), e, once.Operation{Scope: "s"}, fail(nil)); once.CodeOf(err) != once.CodeInvalid {
		t.Fatal(err) // names no operation: no row
	}
	closed(t, l)
	var got []string
	for _, a := range j.attempts("s", once.KeyHash(key)) {
		got = append(got, fmt.Sprintf("%d %s, %s: %s to %s, %d runs, cause %q, %s %s %s", a.Attempt, a.Outcome, a.Effect, a.From, a.To, a.Runs, a.Cause, a.RequestID, a.CorrelationID, a.Node))
		if strings.Contains(fmt.Sprintf("%+v", a), "4111") {
			t.Errorf("the key is in %+v", a)
		}
	}
	want := []string{
		`1 failed, not applied: absent to absent, 1 runs, cause "", r c n1`,
		`2 failed, not applied: absent to absent, 1 runs, cause "23505", r c n1`,
		`3 conflict, not applied: absent to absent, 3 runs, cause "retry", r c n1`,
		`4 failed, not applied: absent to absent, 1 runs, cause "", r c n1`,
		`5 executed, applied: absent to done, 1 runs, cause "", r c n1`,
		`6 replayed, applied: done to done, 0 runs, cause "", r c n1`,
		`7 mismatch, not applied: done to done, 0 runs, cause "", r c n1`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if rest := j.attempts("s", ""); len(rest) != 0 {
		t.Errorf("rows without an operation: %+v", rest)
	}
}

// TestAnswerThatIsNotStored: a handler that answers 503 has failed, and the log says how.
func TestAnswerThatIsNotStored(t *testing.T) {
	s, j := memstore.New(), new(fakeJournal)
	l := newLog(j, Config{})
	h := oncehttp.Handler(once.New(s, once.Config{Observer: l}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()},
		func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
			w.WriteHeader(http.StatusServiceUnavailable)
		})
	for _, key := range []string{"k", "", "\x00"} { // the others are no keys, and so no attempts
		r := httptest.NewRequest(http.MethodPost, "/pay", nil)
		r.Header.Set("Idempotency-Key", key)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	closed(t, l)
	list := j.attempts("global POST /pay", once.KeyHash("k"))
	if len(list) != 1 || list[0].Outcome != "failed" || list[0].Cause != "HTTP 503" {
		t.Errorf("%+v", list)
	}
}

// BenchmarkAttemptThatIsLogged is what an attempt costs the call that makes it, while there is
// room for it.
func BenchmarkAttemptThatIsLogged(b *testing.B) {
	const room = DefaultBuffer
	e := event(1)
	var l *Log
	b.ReportAllocs()
	for i := range b.N {
		if i%room == 0 {
			b.StopTimer()
			if l != nil {
				_ = l.Close(context.Background())
			}
			l = newLog(nowhere{}, Config{Batch: room, Buffer: room, Interval: time.Hour})
			b.StartTimer()
		}
		l.Observe(context.Background(), e)
	}
	if n := l.Dropped(); n > 0 {
		b.Errorf("%d dropped", n)
	}
}

// BenchmarkDoWithAndWithoutALog is an operation on memstore, with and without a log.
func BenchmarkDoWithAndWithoutALog(b *testing.B) {
	for _, name := range []string{"bare", "log"} {
		b.Run(name, func(b *testing.B) {
			cfg := once.Config{}
			if name == "log" {
				l := newLog(nowhere{}, Config{})
				defer func() { _ = l.Close(context.Background()) }()
				cfg.Observer = l
			}
			e := once.New(memstore.New(), cfg)
			b.ReportAllocs()
			for b.Loop() {
				_, err := once.Do(b.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(_ context.Context, tx *memstore.Tx) (int, error) { return 1, tx.Put("k", "v") })
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type nowhere struct{}

func (nowhere) Write(context.Context, []attempts.Attempt) error { return nil }

func (nowhere) Sweep(context.Context, time.Duration, int) (int, error) { return 0, nil }
