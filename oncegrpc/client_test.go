package oncegrpc_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/retry"
)

// quick is a policy without pauses and with a budget of its own.
func quick() oncegrpc.ClientConfig {
	return oncegrpc.ClientConfig{Policy: retry.Policy{Base: -1, Budget: new(retry.Budget)}}
}

// The refund is made, and then the connection breaks before its answer is sent.
func TestLostAnswer(t *testing.T) {
	for name, cfg := range map[string]bool{"the caller's key": false, "a key of its own": true} {
		t.Run(name, func(t *testing.T) {
			s := start(t, oncegrpc.Config{}, func(s *service) {
				s.around = func(_ context.Context, call int, handle func() (any, error)) (any, error) {
					answer, err := handle()
					if call == 1 {
						s.cut()
					}
					return answer, err
				}
			})
			ctx, client := context.Background(), quick()
			if client.Keys = cfg; !cfg {
				ctx = oncegrpc.WithKey(ctx, `a "key"; with, all`)
			}
			var h metadata.MD
			r, err := s.retrying(client).CreateRefund(ctx, refund, grpc.Header(&h))
			if err != nil || r.GetId() != 1 || said(h) != "replayed" {
				t.Errorf("%v, %v, %v", r, err, h)
			}
			s.expect(1, 1)
			if keys := s.keys(); len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
				t.Errorf("keys %q", keys)
			}
			if n := s.seen[1].Get("once-attempt"); !slices.Equal(n, []string{"2"}) {
				t.Errorf("attempt %q", n)
			}
		})
	}
}

// Without a key nothing is repeated, and the error says why.
func TestNoKey(t *testing.T) {
	s := start(t, oncegrpc.Config{Optional: true}, func(s *service) {
		s.around = func(_ context.Context, call int, handle func() (any, error)) (any, error) {
			answer, err := handle()
			if call == 1 {
				s.cut()
			}
			return answer, err
		}
	})
	_, err := s.retrying(quick()).CreateRefund(context.Background(), refund)
	var gaveUp *retry.Error
	if !errors.As(err, &gaveUp) || gaveUp.Reason != retry.ReasonNotSafe || status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	s.expect(1, 1)
}

// A call that is declared to be harmless needs no key.
func TestHarmlessIsRepeated(t *testing.T) {
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.around = func(_ context.Context, call int, handle func() (any, error)) (any, error) {
			if call < 3 {
				return nil, status.Error(codes.Unavailable, "not now")
			}
			return handle()
		}
	})
	client := quick()
	client.Keys = true
	_, err := s.retrying(client).GetRefund(context.Background(), &refundsv1.GetRefundRequest{Id: 9})
	if status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if keys := s.keys(); !slices.Equal(keys, []string{"", "", ""}) {
		t.Errorf("keys %q", keys)
	}
}

// A duplicate comes back until the first one is done.
func TestInFlight(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.before = func(context.Context, int) error {
			close(entered)
			<-release
			return nil
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.client().CreateRefund(with("k"), refund); err != nil {
			t.Error(err)
		}
	})
	<-entered
	client := quick()
	const burst = 100 // however long the first one takes
	client.Policy.Budget.Burst, client.Policy.Budget.Percent = burst, -1
	client.Policy.Attempts, client.Policy.Total = burst, time.Minute
	waits := 0
	client.Policy.Observe = func(_ context.Context, e retry.Event) {
		if e.Type == retry.EventDone {
			return
		}
		waits++
		if e.Class != retry.ClassInFlight || once.CodeOf(e.Err) != once.CodeInFlight {
			t.Errorf("%+v", e)
		}
		if e.Attempt == 1 {
			close(release)
		}
	}
	r, err := s.retrying(client).CreateRefund(oncegrpc.WithKey(context.Background(), "k"), refund)
	if err != nil || r.GetId() != 1 {
		t.Errorf("%v, %v", r, err)
	}
	wg.Wait()
	s.expect(1, 1)
	if cost := burst - client.Policy.Budget.State().Left; waits == 0 || math.Abs(cost-0.3*float64(waits)) > 0.01 {
		t.Errorf("asking after one's own work %d times has cost %v retries", waits, cost)
	}
}

// A stored "no" is final, and so is what the server's engine says is.
func TestFinalAnswersAreNotRetried(t *testing.T) {
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.before = func(context.Context, int) error { return status.Error(codes.NotFound, "no such charge") }
	})
	c := s.retrying(quick())
	ctx := oncegrpc.WithKey(context.Background(), "k")
	for range 2 {
		if _, err := c.CreateRefund(ctx, refund); status.Code(err) != codes.NotFound {
			t.Error(err)
		}
	}
	_, err := c.CreateRefund(ctx, &refundsv1.CreateRefundRequest{Amount: 1})
	if once.CodeOf(err) != once.CodeMismatch || once.EffectOf(err) != once.EffectInDoubt || status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
	if n := len(s.keys()); n != 3 {
		t.Errorf("%d calls have arrived", n)
	}
	s.expect(0, 1)
}

// Each failure is an attempt until the budget is spent.
func TestBudgetEndsRetries(t *testing.T) {
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.around = func(context.Context, int, func() (any, error)) (any, error) {
			return nil, status.Error(codes.Unavailable, "down")
		}
	})
	client := quick()
	client.Policy.Budget.Burst = 2
	c := s.retrying(client)
	for i, want := range []retry.Reason{retry.ReasonOverBudget, retry.ReasonOverBudget} {
		_, err := c.CreateRefund(oncegrpc.WithKey(context.Background(), once.NewKey()), refund)
		var gaveUp *retry.Error
		if !errors.As(err, &gaveUp) || gaveUp.Reason != want || gaveUp.Attempts != 3-2*i || status.Code(err) != codes.Unavailable {
			t.Errorf("%d: %v", i, err)
		}
	}
	client.Policy.Budget = nil
	if _, err := s.retrying(client).CreateRefund(oncegrpc.WithKey(context.Background(), "k"), refund); err == nil {
		t.Error("no error")
	}
	if !slices.ContainsFunc(retry.Budgets(), func(b retry.BudgetState) bool { return b.Spent > 0 && b.Destination == "dns:///"+s.addr }) {
		t.Errorf("no budget of its own: %+v", retry.Budgets())
	}
}

func TestPushbackIsObeyed(t *testing.T) {
	for _, test := range []struct {
		pushback string
		calls    int
	}{{"5", 2}, {"-1", 1}, {"x", 1}} {
		s := start(t, oncegrpc.Config{}, func(s *service) {
			s.around = func(ctx context.Context, call int, handle func() (any, error)) (any, error) {
				if call == 1 {
					return nil, errors.Join(grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", test.pushback)), status.Error(codes.Unavailable, "not now"))
				}
				return handle()
			}
		})
		_, err := s.retrying(quick()).CreateRefund(oncegrpc.WithKey(context.Background(), "k"), refund)
		if n := len(s.keys()); n != test.calls || (err == nil) != (n == 2) {
			t.Errorf("%s: %d calls, %v", test.pushback, n, err)
		}
	}
}

func TestKeysOfACall(t *testing.T) {
	s := start(t, oncegrpc.Config{}, nil)
	c := s.retrying(quick())
	for name, ctx := range map[string]context.Context{
		"two":   oncegrpc.WithKey(with("a"), "b"),
		"empty": oncegrpc.WithKey(context.Background(), ""),
		"ü":     oncegrpc.WithKey(context.Background(), "ü"),
	} {
		if _, err := c.CreateRefund(ctx, refund); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s.expect(0, 0)
	_, err := c.CreateRefund(with("a"), refund)
	s.must(err)
	s.expect(1, 1)
}
