package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// asking is work with one call that is never answered, and a service that can be asked about it.
type asking struct {
	finding      atomic.Int64
	calls, asked atomic.Int64
	keys         []string
	knows        time.Duration // for how long the service knows calls
	engine       *once.Engine[*lease.Run]
	leased       *lease.Store
}

func newAsking() *asking {
	a := &asking{leased: lease.New(memstore.New(), lease.Config{TTL: time.Second})}
	a.engine = once.New(a.leased, once.Config{Observer: once.Discard})
	return a
}

func (a *asking) handler(ctx context.Context, r *lease.Run) (string, error) {
	return lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
		a.keys = append(a.keys, key)
		if a.calls.Add(1) > 1 {
			return "paid later", nil
		}
		return "", errDead
	}, a.policy())
}

func (a *asking) policy() lease.CallPolicy {
	return lease.CallPolicy{CheckedFor: a.knows, Check: lease.Check(func(context.Context, string) (string, lease.Finding, error) {
		a.asked.Add(1)
		return "paid", lease.Finding(a.finding.Load()), nil
	})}
}

func (a *asking) do(ctx context.Context) (string, error) {
	r, err := once.Do(ctx, a.engine, once.Operation{Scope: "s", Key: "k"}, a.handler)
	return r.Value, err
}

// TestCallersAsk: a caller of what is unknown has the service asked, at most once in AskEvery, and is told when to come again.
func TestCallersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking()
		unknown := func(asked int64) {
			t.Helper()
			_, err := a.do(t.Context())
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			var e *once.Error
			if errors.As(err, &e) && e.After != time.Second {
				t.Errorf("a caller of what can be asked is told to come in %v", e.After)
			}
			if n := a.asked.Load(); n != asked {
				t.Errorf("asked %d times, want %d", n, asked)
			}
		}
		unknown(1)
		for range 5 {
			unknown(1)
		}
		pass(time.Second)
		unknown(2)
		unknown(2)
		pass(time.Second)
		a.finding.Store(int64(lease.Happened))
		value, err := a.do(t.Context())
		must(t, err)
		if value != "paid" || a.calls.Load() != 1 {
			t.Errorf("%q after %d calls", value, a.calls.Load())
		}
		pass(time.Minute) // hearts end
	})
}

// TestForgottenCallsAreNotAsked: a service is asked for nine tenths of the time for which it knows calls, as it says now and as it has said when the call
// was made. Later that it voids a key says nothing: the outcome stays unknown, and no caller is told to come again.
func TestForgottenCallsAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			was, is, after time.Duration
			asked          bool
		}{
			{10 * time.Hour, 10 * time.Hour, 8 * time.Hour, true},
			{10 * time.Hour, 10 * time.Hour, 9 * time.Hour, false},
			{10 * time.Hour, 0, 9 * time.Hour, false},
			{0, 10 * time.Hour, 9 * time.Hour, false},
			{0, 0, 1000 * time.Hour, true},
		} {
			a := newAsking()
			a.knows = c.was
			_, err := a.do(t.Context())
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			pass(c.after)
			a.finding.Store(int64(lease.Voided))
			a.knows = c.is
			_, err = a.do(t.Context())
			if c.asked {
				must(t, err)
				continue
			}
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			var e *once.Error
			if errors.As(err, &e) && e.After != 0 && c.was != 0 {
				t.Errorf("%+v: a caller is told to come in %v, and nothing will be known", c, e.After)
			}
			if asked, calls := a.asked.Load(), a.calls.Load(); asked != 1 || calls != 1 {
				t.Errorf("%+v: asked %d times, called %d times", c, asked, calls)
			}
		}
		pass(time.Minute) // hearts end
	})
}

// TestVoidedCallRunsAgain: what a check has voided is called again under another key, in the same run and by a later caller.
func TestVoidedCallRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, now := range []bool{true, false} {
			a := newAsking()
			if now {
				a.finding.Store(int64(lease.Voided))
			}
			_, err := once.Do(t.Context(), a.engine, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, r *lease.Run) (string, error) {
				value, err := a.handler(ctx, r)
				if errors.Is(err, lease.ErrVoided) {
					return a.handler(ctx, r)
				}
				return value, err
			})
			if !now {
				wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
				pass(time.Second)
				a.finding.Store(int64(lease.Voided))
				_, err = a.do(t.Context())
			}
			must(t, err)
			if len(a.keys) != 2 || a.keys[0] == a.keys[1] || a.keys[1] != lease.Key("s", "k", "charge", 1) {
				t.Errorf("called under %v", a.keys)
			}
		}
		pass(time.Minute) // hearts end
	})
}

// TestCompleterAsksOnly: a Completer that only asks has no requests and no Encrypter. It finishes what has happened, makes no
// call, and leaves what was voided to its client.
func TestCompleterAsksOnly(t *testing.T) {
	for finding, state := range map[lease.Finding]store.State{lease.Happened: store.StateDone, lease.Voided: store.StateWaiting, lease.Unclear: store.StateUnknown} {
		t.Run(finding.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsking()
				_, err := a.do(t.Context())
				wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
				a.finding.Store(int64(finding))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					done <- lease.Completer{
						Store: a.leased, AskOnly: true, CheckEvery: time.Minute, Log: slog.New(slog.DiscardHandler),
						Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
							_, err := once.Do(ctx, a.engine, op, func(ctx context.Context, r *lease.Run) (string, error) {
								return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
									a.calls.Add(1)
									return "", lease.NotSent(errDead)
								}, a.policy())
							})
							return err
						}},
					}.Run(ctx)
				}()
				pass(time.Hour)
				cancel()
				must(t, <-done)
				pass(time.Minute) // hearts end
				rec, err := a.leased.Read(t.Context(), store.ID{Scope: "s", Key: "k"})
				must(t, err)
				calls := int64(1)
				if finding == lease.Voided {
					calls++ // that of the handler, which does not send
				}
				if rec.State != state || a.calls.Load() != calls {
					t.Errorf("%v after %d calls, want %v after %d", rec.State, a.calls.Load(), state, calls)
				}
				if finding != lease.Unclear && a.asked.Load() != 2 {
					t.Errorf("asked %d times", a.asked.Load())
				}
			})
		})
	}
}

// paused is a store whose leases are not renewed until a test says so: of a process that was stopped.
type paused struct {
	*memstore.Store

	goesOn chan struct{}
}

func (p paused) Renew(ctx context.Context, holds []store.Hold, ttl time.Duration) ([]store.Hold, error) {
	<-p.goesOn
	return p.Store.Renew(context.WithoutCancel(ctx), holds, ttl) // the process was stopped, and not the store
}

// TestLateOwnerIsToldToAskAgain: an owner that was stopped in a call which can be asked about, while another one took the operation over, is told when
// to come again.
func TestLateOwnerIsToldToAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, p := newAsking(), paused{memstore.New(), make(chan struct{})}
		late := lease.New(p, lease.Config{TTL: time.Second})
		other.leased = lease.New(p.Store, lease.Config{TTL: time.Second})
		other.engine = once.New(other.leased, once.Config{Observer: once.Discard})
		_, err := once.Do(t.Context(), once.New(late, once.Config{Observer: once.Discard}), once.Operation{Scope: "s", Key: "k"},
			func(ctx context.Context, r *lease.Run) (string, error) {
				return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
					pass(3 * time.Second)
					_, err := other.do(context.Background())
					wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
					close(p.goesOn)
					pass(3 * time.Second)
					return "", errDead
				}, other.policy())
			})
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		var e *once.Error
		if !errors.As(err, &e) || e.After != time.Second || !strings.Contains(err.Error(), lease.ErrLost.Error()) {
			t.Errorf("it is told to come in %v, and that another one has its operation: %v", e.After, err)
		}
		pass(time.Minute) // hearts end
	})
}
