package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

func encrypter(t *testing.T) once.Encrypter {
	t.Helper()
	e, err := once.NewEncrypter(make([]byte, 32))
	must(t, err)
	return e
}

// Two completers finish what has stopped, although no caller asks again: each operation once, with the request of its caller.
func TestCompletersFinishEachOperationOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		var calls atomic.Int64
		fails := atomic.Bool{}
		fails.Store(true)
		handler := func(request string) func(context.Context, *lease.Run) (string, error) {
			return func(ctx context.Context, r *lease.Run) (string, error) {
				if _, err := lease.InTx(ctx, r, s, "a", put(request, "1")); err != nil {
					return "", err
				}
				return lease.Call(ctx, r, "b", func(context.Context, string) (string, error) {
					if fails.Load() {
						return "", errDead
					}
					calls.Add(1)
					return request, nil
				}, lease.CallPolicy{SafeToRepeat: true})
			}
		}
		newNode := func() (*lease.Store, *once.Engine[*lease.Run]) {
			leased := lease.New(s, lease.Config{TTL: time.Second})
			return leased, once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		}
		_, e := newNode()
		requests := []string{"x", "y", "z"}
		for _, request := range requests {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: request, Fingerprint: once.FingerprintOf([]byte(request)), Request: []byte(request), Retain: time.Hour}, handler(request))
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		}
		fails.Store(false)
		ctx, cancel := context.WithCancel(t.Context())
		var nodes sync.WaitGroup
		for range 2 {
			leased, e := newNode()
			c := lease.Completer{Store: leased, Encrypter: box, Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
				if op.Retain != time.Hour {
					t.Errorf("resumed with a Retain of %v", op.Retain)
				}
				if op.Key == "y" && calls.Load() < 2 { // the others are not held up
					panic("a request that breaks a handler")
				}
				_, err := once.Do(ctx, e, op, handler(string(op.Request)))
				return err
			}}, Log: slog.New(slog.DiscardHandler)}
			nodes.Go(func() { must(t, c.Run(ctx)) })
		}
		pass(10 * time.Second)
		cancel()
		nodes.Wait()
		for _, request := range requests {
			rec, err := s.Read(t.Context(), store.ID{Scope: "s", Key: request})
			must(t, err)
			if v, _ := s.Get(request); rec.State != store.StateDone || string(rec.Result.Body) != `"`+request+`"` || v != "1" {
				t.Errorf("%s: %s, %q, written %q", request, rec.State, rec.Result.Body, v)
			}
		}
		if calls.Load() != 3 {
			t.Errorf("%d calls", calls.Load())
		}
		pass(time.Minute) // heartbeats end
	})
}

// TestRarePollsEachResumeWhatFails: with two hours between two polls, an operation that fails is resumed by each poll, and not by every second one.
func TestRarePollsEachResumeWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Request: []byte("r")}, func(ctx context.Context, r *lease.Run) (string, error) {
			if _, err := lease.InTx(ctx, r, s, "a", put("k", "1")); err != nil {
				return "", err
			}
			return "", errDead
		})
		wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		pass(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done, began := make(chan error), time.Now()
		var after []time.Duration
		go func() {
			done <- lease.Completer{Store: leased, Encrypter: box, Every: 2 * time.Hour, Log: slog.New(slog.DiscardHandler), Handlers: lease.Handlers{"": func(context.Context, once.Operation) error {
				after = append(after, time.Since(began).Round(time.Hour))
				pass(time.Second)
				return errDead
			}}}.Run(ctx)
		}()
		pass(7 * time.Hour)
		cancel()
		must(t, <-done)
		if want := []time.Duration{0, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour}; !slices.Equal(after, want) {
			t.Errorf("resumed after %v, want %v", after, want)
		}
	})
}

// A completer asks about what is unknown, from time to time, until there is an answer. What no check can tell it leaves to people.
func TestCompleterChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		var finding, asked atomic.Int64
		handler := func(policy lease.CallPolicy) func(context.Context, *lease.Run) (string, error) {
			return func(ctx context.Context, r *lease.Run) (string, error) {
				return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) { return "", errDead }, policy)
			}
		}
		check := lease.Check(func(context.Context, string) (string, lease.Finding, error) {
			asked.Add(1)
			return "paid", lease.Finding(finding.Load()), nil
		})
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		checked := once.Operation{Scope: "s", Key: "checked", Request: []byte("r")}
		lost := once.Operation{Scope: "s", Key: "lost", Request: []byte("r")}
		_, err := once.Do(t.Context(), e, checked, handler(lease.CallPolicy{Check: check}))
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		_, err = once.Do(t.Context(), e, lost, handler(lease.CallPolicy{}))
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		ctx, cancel := context.WithCancel(t.Context())
		resumed := map[string]int{}
		var log bytes.Buffer
		done := make(chan error)
		go func() {
			done <- lease.Completer{
				Store: leased, Encrypter: box, CheckEvery: time.Minute, Concurrency: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
					resumed[op.Key]++
					_, err := once.Do(ctx, e, op, handler(lease.CallPolicy{Check: check}))
					return err
				}},
			}.Run(ctx)
		}()
		pass(150 * time.Second) // at 0, 60 and 120 s
		if n := asked.Load(); n != 1+3 {
			t.Errorf("asked %d times", n)
		}
		finding.Store(int64(lease.Happened))
		pass(time.Minute)
		cancel()
		must(t, <-done)
		rec, err := s.Read(t.Context(), store.ID{Scope: "s", Key: "checked"})
		must(t, err)
		if rec.State != store.StateDone || string(rec.Result.Body) != `"paid"` || resumed["lost"] != 0 {
			t.Errorf("%s %q, resumed %v", rec.State, rec.Result.Body, resumed)
		}
		if n := strings.Count(log.String(), "the outcome of an operation is unknown"); n != 1 {
			t.Errorf("it is logged %d times that the outcome is unknown, and it has not changed: %q", n, log.String())
		}
		// The key itself is in no log: its hash, as other logs have it, stands for it.
		if !strings.Contains(log.String(), " idempotency_key="+once.KeyHash("checked")) || strings.Contains(log.String(), "=checked") {
			t.Errorf("the log names the key in another way: %q", log.String())
		}
	})
}

// TestDecidedOperationIsResumedByTheNextPoll: a decision about an unknown outcome ends the pauses of earlier tries. Such a pause is a minute if the
// operation was unknown when it was tried, and up to an hour if it had failed for hours before.
func TestDecidedOperationIsResumedByTheNextPoll(t *testing.T) {
	for name, failing := range map[string]time.Duration{"unknown from the beginning": 0, "unknown after hours of failures": 5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, box := memstore.New(), encrypter(t)
				leased := lease.New(s, lease.Config{TTL: time.Second})
				e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
				op, began, tries := op, time.Now(), 0
				op.Request = []byte("r")
				charge := func(ctx context.Context, op once.Operation) error {
					tries++
					_, err := once.Do(ctx, e, op, func(ctx context.Context, r *lease.Run) (string, error) {
						if _, err := lease.InTx(ctx, r, s, "reserve", put("k", "1")); err != nil {
							return "", err
						}
						return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
							if time.Since(began) < failing {
								return "", lease.NotSent(errDead)
							}
							return "", errDead
						}, lease.CallPolicy{})
					})
					return err
				}
				if charge(t.Context(), op) == nil {
					t.Fatal("the call has succeeded")
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					done <- lease.Completer{Store: leased, Encrypter: box, Log: slog.New(slog.DiscardHandler), Handlers: lease.Handlers{"": charge}}.Run(ctx)
				}()
				for range 2 * 60 { // the last pause before the operation is unknown takes up to an hour
					pass(failing/60 + time.Second)
					if rec, err := s.Read(t.Context(), id); err == nil && rec.State == store.StateUnknown {
						break
					}
				}
				pass(2 * lease.DefaultEvery)
				tries = 0
				must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), CallValue: []byte(`"by hand"`)}))
				pass(2 * lease.DefaultEvery)
				if rec := wantState(t, s, store.StateDone); string(rec.Result.Body) != `"by hand"` || tries != 1 {
					t.Errorf("the result is %q after %d tries", rec.Result.Body, tries)
				}
				cancel()
				must(t, <-done)
			})
		})
	}
}

// An operation whose owner has died in a call that must not be repeated becomes unknown, also if its request was not kept.
func TestCompleterTellsWhatIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		dieInCall(s, lease.CallPolicy{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		must(t, lease.Completer{Store: leased, Encrypter: box, Log: slog.New(slog.DiscardHandler), Handlers: lease.Handlers{"": func(context.Context, once.Operation) error {
			t.Error("it is executed")
			return nil
		}}}.Run(ctx))
		wantState(t, s, store.StateUnknown)
	})
}

// A handler that does not end holds up neither the look-ups nor what needs no handler, and a database that does not answer
// ends no Completer.
func TestCompleterIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		e := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard, Encrypter: box})
		for _, key := range []string{"a slow one", "one that waits"} {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "a", Key: key, Request: []byte("r")}, fails(lease.CallPolicy{SafeToRepeat: true}))
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		}
		ctx, cancel := context.WithCancel(t.Context())
		resumed, release, done := map[string]int{}, make(chan struct{}), make(chan error)
		go func() {
			done <- lease.Completer{
				Store: lease.New(&unanswering{Store: s}, lease.Config{TTL: time.Second}), Encrypter: box, Concurrency: 1, Log: slog.New(slog.DiscardHandler),
				Handlers: lease.Handlers{"": func(_ context.Context, op once.Operation) error {
					resumed[op.Key]++
					<-release
					return nil
				}},
			}.Run(ctx)
		}()
		pass(time.Minute)
		dieInCall(s, lease.CallPolicy{})
		pass(5 * time.Minute)
		wantState(t, s, store.StateUnknown)
		close(release)
		pass(time.Millisecond)
		cancel()
		must(t, <-done)
		if resumed["a slow one"] != 1 || resumed["one that waits"] != 1 {
			t.Errorf("resumed %v", resumed)
		}
	})
}

// unanswering is a store that does not answer the first look-up, and not the first reading.
type unanswering struct {
	*memstore.Store
	listed, read atomic.Bool
}

func (s *unanswering) Unfinished(ctx context.Context, page upkeep.Listing) ([]upkeep.Entry, store.ID, error) {
	if !s.listed.Swap(true) {
		<-ctx.Done()
		return nil, store.ID{}, ctx.Err()
	}
	return s.Store.Unfinished(ctx, page)
}

func (s *unanswering) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if !s.read.Swap(true) {
		<-ctx.Done()
		return store.Record{}, ctx.Err()
	}
	return s.Store.Read(ctx, id)
}

// dieInCall executes op in a process that dies in a call, which without an option nothing can decide.
func dieInCall(s *memstore.Store, policy lease.CallPolicy) {
	begins := make(chan struct{})
	go func() {
		_, _ = once.Do(context.Background(), node(frozen{s}), op, func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
				close(begins)
				return "", errDead
			}, policy)
		})
	}()
	<-begins
}

// frozen is a store whose process dies in its first call: what it writes after the intent never comes to the database.
type frozen struct{ *memstore.Store }

func (f frozen) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if c.Next.State == store.StateRunning && c.Next.CallStarted {
		return f.Store.Swap(ctx, c)
	}
	return store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: errors.New("the process is dead")}
}

func (f frozen) Renew(context.Context, []store.Hold, time.Duration) ([]store.Hold, error) {
	return nil, &store.Error{Kind: store.KindUnavailable, Err: errors.New("the process is dead")}
}

// A handler that ends its goroutine, as t.FailNow does, keeps no worker: it is tried again like one that fails, and told.
func TestCompleterOutlivesItsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		const operations, tries = 5, 2
		for i := range operations {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: strconv.Itoa(i), Request: []byte("r")}, fails(lease.CallPolicy{SafeToRepeat: true}))
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var text bytes.Buffer
		var ended, done atomic.Int64
		stopped := make(chan error)
		go func() {
			stopped <- lease.Completer{Store: leased, Encrypter: box, Concurrency: 2, Log: slog.New(slog.NewTextHandler(&text, nil)), Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
				_, err := once.Do(ctx, e, op, func(ctx context.Context, r *lease.Run) (string, error) {
					return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
						if ended.Add(1) <= operations*tries {
							runtime.Goexit()
						}
						return "paid", nil
					}, lease.CallPolicy{SafeToRepeat: true})
				})
				if err == nil {
					done.Add(1)
				}
				return err
			}}}.Run(ctx)
		}()
		pass(5 * time.Minute)
		cancel()
		must(t, <-stopped)
		if done.Load() != operations || strings.Count(text.String(), "runtime.Goexit") != operations*tries {
			t.Errorf("%d of %d are done\n%s", done.Load(), operations, &text)
		}
	})
}

// A completer that cannot work says so when it starts.
func TestCompleterRefusals(t *testing.T) {
	leased := lease.New(memstore.New(), lease.Config{})
	resume := lease.Handlers{"order": func(context.Context, once.Operation) error { return nil }}
	for name, c := range map[string]lease.Completer{
		"no requests": {Store: leased, Handlers: resume},
		"no handlers": {Store: leased, Encrypter: encrypter(t)},
		"no store":    {Handlers: resume, Encrypter: encrypter(t)},
		"negative":    {Store: leased, Handlers: resume, Encrypter: encrypter(t), Every: -1},
	} {
		if err := c.Run(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// An operation that fails again and again is resumed less and less often, and a caller goes on with it at once.
func TestCompleterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		var runs atomic.Int64
		var works atomic.Bool
		run := func(ctx context.Context, r *lease.Run) (string, error) {
			runs.Add(1)
			a, err := lease.InTx(ctx, r, s, "a", put("a", "1"))
			if err == nil && !works.Load() {
				err = errDead
			}
			return a, err
		}
		asked := op
		asked.Request = []byte("r")
		_, err := once.Do(t.Context(), e, asked, run)
		wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- lease.Completer{Store: leased, Encrypter: box, Log: slog.New(slog.DiscardHandler), Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
				_, err := once.Do(ctx, e, op, run)
				return err
			}}}.Run(ctx)
		}()
		pass(24 * time.Hour)
		if n := runs.Load(); n < 24 || n > 40 {
			t.Errorf("%d runs in a day", n)
		}
		works.Store(true)
		if r, err := once.Do(t.Context(), e, asked, run); err != nil || r.Value != "1" {
			t.Errorf("%+v, %v", r, err)
		}
		cancel()
		must(t, <-done)
		pass(time.Minute)
	})
}
