package onceconnect_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func TestFirstAndReplay(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			s := start(t, onceconnect.Config{}, func(s *service) {
				s.before = func(ctx context.Context, _ int) error {
					info, _ := connect.CallInfoForHandlerContext(ctx)
					info.ResponseHeader().Set("X-Set", "1")
					return nil
				}
			})
			c := s.client(protocol)
			ctx1, i1 := with("k")
			first, err := c.CreateRefund(ctx1, refund)
			s.must(err)
			ctx2, i2 := with(`"k";p=1`)
			again, err := c.CreateRefund(ctx2, refund)
			s.must(err)
			if !proto.Equal(first, again) || first.GetId() == 0 {
				t.Errorf("%v, then %v", first, again)
			}
			h1, h2 := i1.ResponseHeader(), i2.ResponseHeader()
			if h1.Get("Idempotency-Status") != "stored" || h1.Get("X-Set") != "1" || h1.Get("Idempotency-Retention") != "259200" {
				t.Errorf("%v", h1)
			}
			if h2.Get("Idempotency-Status") != "replayed" || h2.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%v", h2)
			}
			s.expect(1, 1)
		})
	}
}

func TestDuplicatesAtOnce(t *testing.T) {
	s := start(t, onceconnect.Config{Wait: 10 * time.Second}, nil)
	c := s.client()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			ctx, _ := with("k")
			if r, err := c.CreateRefund(ctx, refund); err != nil || r.GetId() != 1 {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	wg.Wait()
	s.expect(1, 1)
}

// What cannot be executed says why, in words that a program understands.
func TestRefusalsSayWhy(t *testing.T) {
	principal := "acme"
	s := start(t, onceconnect.Config{Principal: func(context.Context, connect.AnyRequest) string { return principal }}, nil)
	c := s.client()
	ctx, _ := with("k")
	_, err := c.CreateRefund(ctx, refund)
	s.must(err)
	other := &refundsv1.CreateRefundRequest{Charge: "ch_1", Amount: 1001}
	for _, test := range []struct {
		principal string
		keys      []string
		req       *refundsv1.CreateRefundRequest
		code      connect.Code
		reason    string
		safe      string
	}{
		{"acme", []string{"k"}, other, connect.CodeFailedPrecondition, "MISMATCH", "false"},
		{"acme", nil, refund, connect.CodeInvalidArgument, "KEY_MISSING", "true"},
		{"acme", []string{""}, refund, connect.CodeInvalidArgument, "KEY_INVALID", "false"},
		{"acme", []string{strings.Repeat("k", 256)}, refund, connect.CodeInvalidArgument, "KEY_INVALID", "false"},
		{"acme", []string{"a", "b"}, refund, connect.CodeInvalidArgument, "KEY_INVALID", "false"},
		{"", []string{"k"}, refund, connect.CodeUnauthenticated, "UNAUTHENTICATED", "false"},
	} {
		principal = test.principal
		ctx, _ := with(test.keys...)
		_, err := c.CreateRefund(ctx, test.req)
		info := infoOf(err)
		if connect.CodeOf(err) != test.code || info.GetReason() != test.reason || info.GetMetadata()["safe_new_key"] != test.safe || info.GetMetadata()["retryable"] != "false" {
			t.Errorf("%s: %v, %v", test.reason, err, info)
		}
	}
	s.expect(1, 1)
	principal = "other"
	ctx, _ = with("k")
	_, err = c.CreateRefund(ctx, other)
	s.must(err)
	s.expect(2, 2)
}

func infoOf(err error) *errdetails.ErrorInfo {
	var e *connect.Error
	if !errors.As(err, &e) {
		return nil
	}
	for _, d := range e.Details() {
		m, _ := d.Value()
		if info, ok := m.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// A final error is stored, with its details, and its writes are not. It may be one that
// all calls share.
func TestFinalError(t *testing.T) {
	shared := connect.NewError(connect.CodeFailedPrecondition, errors.New("refunded already"))
	detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "REFUNDED", Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	shared.AddDetail(detail)
	shared.Meta().Set("X-Meta", "1")
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			s := start(t, onceconnect.Config{}, func(s *service) {
				s.before = func(context.Context, int) error { return shared }
			})
			c := s.client(protocol)
			for i, want := range []string{"stored", "replayed"} {
				ctx, _ := with("k")
				_, err := c.CreateRefund(ctx, refund)
				var e *connect.Error
				if !errors.As(err, &e) || e.Code() != connect.CodeFailedPrecondition || e.Message() != "refunded already" || infoOf(err).GetReason() != "REFUNDED" || e.Meta().Get("Idempotency-Status") != want {
					t.Errorf("%d: %v %v", i, err, infoOf(err))
				} else if (e.Meta().Get("X-Meta") == "1") != (want == "stored") {
					t.Errorf("%v", e.Meta())
				}
			}
			s.expect(0, 1)
		})
	}
	if len(shared.Meta()) != 1 {
		t.Errorf("the handler's own error has changed: %v", shared.Meta())
	}
}

// After any other error nothing is stored, and a retry executes.
func TestOtherErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		code connect.Code
		text string
	}{
		"error":    {connect.NewError(connect.CodeUnavailable, errors.New("the bank is closed")), connect.CodeUnavailable, "the bank is closed"},
		"no":       {connect.NewError(connect.CodePermissionDenied, errors.New("not you")), connect.CodePermissionDenied, "not you"},
		"database": {errors.New("password=secret"), connect.CodeInternal, "Nothing was applied."},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, onceconnect.Config{}, func(s *service) {
				s.before = func(_ context.Context, run int) error {
					if run == 1 {
						return test.err
					}
					return nil
				}
			})
			c := s.client()
			ctx, _ := with("k")
			_, err := c.CreateRefund(ctx, refund)
			if connect.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
			s.expect(0, 1)
			ctx, info := with("k")
			_, err = c.CreateRefund(ctx, refund)
			s.must(err)
			if info.ResponseHeader().Get("Idempotency-Status") != "stored" {
				t.Error(info.ResponseHeader())
			}
			s.expect(1, 2)
		})
	}
}

func TestOptionalKeyMayBeMissing(t *testing.T) {
	s := start(t, onceconnect.Config{Optional: true}, nil)
	c := s.client()
	for range 2 {
		ctx, info := with()
		_, err := c.CreateRefund(ctx, refund)
		s.must(err)
		if h := info.ResponseHeader(); h.Get("Idempotency-Status") != "ignored" || h.Get("Idempotency-Retention") != "" {
			t.Error(h)
		}
	}
	s.expect(2, 2)
}

// What is declared to be harmless has no transaction and needs no key.
func TestHarmlessMethodsNeedNoKey(t *testing.T) {
	s := start(t, onceconnect.Config{}, nil)
	c := s.client()
	ctx, _ := with("k")
	_, err := c.CreateRefund(ctx, refund)
	s.must(err)
	ctx, info := with()
	got, err := c.GetRefund(ctx, &refundsv1.GetRefundRequest{Id: 1})
	if err != nil || got.GetAmount() != 1000 || info.ResponseHeader().Get("Idempotency-Status") != "" {
		t.Errorf("%v, %v, %v", got, err, info.ResponseHeader())
	}
}

// rerun is a service on memory.
type rerun struct {
	*service
	t *testing.T
}

func (s *rerun) CreateRefund(ctx context.Context, r *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	s.runs++
	info, _ := connect.CallInfoForHandlerContext(ctx)
	if r.GetAmount() != 1000 || len(r.GetCharge()) != 4 || len(info.ResponseHeader()) > 0 {
		s.t.Errorf("run %d: %v %v", s.runs, r, info.ResponseHeader())
	}
	r.Amount, r.Charge = 1, "changed"
	info.ResponseHeader().Set("X-Run", "1")
	if s.runs < 3 {
		return nil, &store.Error{Kind: store.KindRetry, Err: errors.New("deadlock")}
	}
	return &refundsv1.Refund{Id: 7}, onceconnect.Tx[*memstore.Tx](ctx).Insert("refund", "1")
}

// A handler that runs again gets the request as it was, and what it has set in vain is
// not sent. The same interceptor twice is one.
func TestRerunGetsTheRequestAsItWas(t *testing.T) {
	i := onceconnect.NewInterceptor(once.New(memstore.New(), once.Config{}), onceconnect.Config{Principal: onceconnect.SharedPrincipal()})
	s := &rerun{new(service), t}
	mux := http.NewServeMux()
	mux.Handle(refundsv1.NewRefundsHandler(s, connect.WithInterceptors(i, i)))
	s.server = httptest.NewServer(mux)
	defer s.server.Close()
	ctx, _ := with("k")
	got, err := s.client().CreateRefund(ctx, refund)
	if err != nil || s.runs != 3 || got.GetId() != 7 {
		t.Errorf("%v, %v after %d runs", got, err, s.runs)
	}
}

func TestWrongSetupPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"no principal":   func() { onceconnect.NewInterceptor(once.New(memstore.New(), once.Config{}), onceconnect.Config{}) },
		"no transaction": func() { onceconnect.Tx[*memstore.Tx](context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p, ok := recover().(string); !ok || !strings.Contains(p, "\nTry: ") {
					t.Errorf("%q", p)
				}
			}()
			f()
			t.Error("no panic")
		})
	}
}
