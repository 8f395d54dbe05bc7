package onceconnect_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
	"github.com/oncelib/once/retry"
)

// quick is a policy without pauses and with a budget of its own.
func quick() onceconnect.ClientConfig {
	return onceconnect.ClientConfig{Policy: retry.Policy{Base: -1, Budget: new(retry.Budget)}}
}

// The refund is made, and then the connection breaks before its answer is sent.
func cutOnce(s *service) {
	s.around = func(call int, handle func() (connect.AnyResponse, error)) (connect.AnyResponse, error) {
		answer, err := handle()
		if call == 1 {
			s.cut()
		}
		return answer, err
	}
}

func TestLostAnswer(t *testing.T) {
	for name, protocol := range protocols {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprint(name, own), func(t *testing.T) {
				s := start(t, onceconnect.Config{}, cutOnce)
				ctx, info := connect.NewClientContext(context.Background())
				client := quick()
				if client.Keys = own; !own {
					ctx = onceconnect.WithKey(ctx, `a "key"; with, all`)
				}
				r, err := s.retrying(client, protocol).CreateRefund(ctx, refund)
				if err != nil || r.GetId() != 1 || info.ResponseHeader().Get("Idempotency-Status") != "replayed" {
					t.Errorf("%v, %v, %v", r, err, info.ResponseHeader())
				}
				s.expect(1, 1)
				if keys := s.keys(); len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
					t.Errorf("keys %q", keys)
				}
				if n := s.seen[1]["Once-Attempt"]; !slices.Equal(n, []string{"2"}) {
					t.Errorf("attempt %q: net/http has sent it again by itself", n)
				}
			})
		}
	}
}

// net/http repeats a POST with an Idempotency-Key by itself when a kept-alive connection
// of HTTP/1 dies. Not this one.
func TestNothingIsSentBehindOnesBack(t *testing.T) {
	s := start(t, onceconnect.Config{}, func(s *service) {
		s.around = func(call int, handle func() (connect.AnyResponse, error)) (connect.AnyResponse, error) {
			if call == 2 {
				s.cut()
			}
			return handle()
		}
	})
	transport := s.server.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	defer transport.CloseIdleConnections()
	c := refundsv1.NewRefundsClient(&http.Client{Transport: transport}, s.server.URL, connect.WithInterceptors(onceconnect.NewClientInterceptor(quick())))
	for _, key := range []string{"a", "b"} {
		ctx, info := connect.NewClientContext(onceconnect.WithKey(context.Background(), key))
		info.RequestHeader().Set("Idempotency-Key", key) // in net/http's own spelling
		if _, err := c.CreateRefund(ctx, refund); err != nil {
			t.Error(err)
		}
	}
	s.expect(2, 2)
	// Each that has arrived has a number of its own. The second one may be told that the
	// first one, whose connection was cut, is still in flight; then there is a third.
	if len(s.seen) < 3 {
		t.Errorf("%d attempts have arrived: nothing was cut", len(s.seen))
	}
	for i, h := range s.seen[1:] {
		if n := h.Get("Once-Attempt"); n != strconv.Itoa(i+1) {
			t.Errorf("attempt %d arrives as %s", i+1, n)
		}
	}
}

// Without a key nothing is repeated, and the error says why.
func TestNoKey(t *testing.T) {
	s := start(t, onceconnect.Config{Optional: true}, cutOnce)
	_, err := s.retrying(quick()).CreateRefund(context.Background(), refund)
	var gaveUp *retry.Error
	if !errors.As(err, &gaveUp) || gaveUp.Reason != retry.ReasonNotSafe || !strings.Contains(err.Error(), "Try: an idempotency key") {
		t.Error(err)
	}
	s.expect(1, 1)
}

// A call that is declared to be harmless needs no key.
func TestHarmlessIsRepeated(t *testing.T) {
	s := start(t, onceconnect.Config{}, func(s *service) {
		s.around = func(call int, handle func() (connect.AnyResponse, error)) (connect.AnyResponse, error) {
			if call < 3 {
				return nil, connect.NewError(connect.CodeUnavailable, errors.New("not now"))
			}
			return handle()
		}
	})
	client := quick()
	client.Keys = true
	_, err := s.retrying(client).GetRefund(context.Background(), &refundsv1.GetRefundRequest{Id: 9})
	if connect.CodeOf(err) != connect.CodeNotFound {
		t.Error(err)
	}
	if keys := s.keys(); !slices.Equal(keys, []string{"", "", ""}) {
		t.Errorf("keys %q", keys)
	}
}

// A duplicate comes back until the first one is done.
func TestInFlight(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, onceconnect.Config{}, func(s *service) {
		s.before = func(context.Context, int) error {
			close(entered)
			<-release
			return nil
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		ctx, _ := with("k")
		if _, err := s.client().CreateRefund(ctx, refund); err != nil {
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
	r, err := s.retrying(client).CreateRefund(onceconnect.WithKey(context.Background(), "k"), refund)
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
	s := start(t, onceconnect.Config{}, func(s *service) {
		s.before = func(context.Context, int) error {
			return connect.NewError(connect.CodeNotFound, errors.New("no such charge"))
		}
	})
	c := s.retrying(quick())
	ctx := onceconnect.WithKey(context.Background(), "k")
	for range 2 {
		if _, err := c.CreateRefund(ctx, refund); connect.CodeOf(err) != connect.CodeNotFound {
			t.Error(err)
		}
	}
	_, err := c.CreateRefund(ctx, &refundsv1.CreateRefundRequest{Amount: 1})
	if once.CodeOf(err) != once.CodeMismatch || once.EffectOf(err) != once.EffectInDoubt || connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Error(err)
	}
	if n := len(s.keys()); n != 3 {
		t.Errorf("%d calls have arrived", n)
	}
	s.expect(0, 1)
}

// Each failure is an attempt until the budget is spent.
func TestBudgetEndsRetries(t *testing.T) {
	s := start(t, onceconnect.Config{}, func(s *service) {
		s.around = func(int, func() (connect.AnyResponse, error)) (connect.AnyResponse, error) {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("down"))
		}
	})
	client := quick()
	client.Policy.Budget.Burst = 2
	c := s.retrying(client)
	for i := range 2 {
		_, err := c.CreateRefund(onceconnect.WithKey(context.Background(), once.NewKey()), refund)
		var gaveUp *retry.Error
		if !errors.As(err, &gaveUp) || gaveUp.Reason != retry.ReasonOverBudget || gaveUp.Attempts != 3-2*i || connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%d: %v", i, err)
		}
	}
	client.Policy.Budget = nil
	if _, err := s.retrying(client).CreateRefund(onceconnect.WithKey(context.Background(), "k"), refund); err == nil {
		t.Error("no error")
	}
	if !slices.ContainsFunc(retry.Budgets(), func(b retry.BudgetState) bool {
		return b.Spent > 0 && b.Destination == s.server.Listener.Addr().String()
	}) {
		t.Errorf("no budget of its own: %+v", retry.Budgets())
	}
}

func TestKeysOfACall(t *testing.T) {
	s := start(t, onceconnect.Config{}, nil)
	c := s.retrying(quick())
	a, _ := with("a")
	ab, _ := with("a", "b")
	for name, ctx := range map[string]context.Context{
		"two":     onceconnect.WithKey(a, "b"),
		"another": ab,
		"empty":   onceconnect.WithKey(context.Background(), ""),
		"ü":       onceconnect.WithKey(context.Background(), "ü"),
	} {
		if _, err := c.CreateRefund(ctx, refund); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s.expect(0, 0)
	a, _ = with("a")
	_, err := c.CreateRefund(a, refund)
	s.must(err)
	s.expect(1, 1)
}
