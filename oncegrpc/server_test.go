package oncegrpc_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func TestFirstAndReplay(t *testing.T) {
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.before = func(ctx context.Context, _ int) error {
			return errors.Join(grpc.SetHeader(ctx, metadata.Pairs("x-set", "1", "idempotency-status", "mine")), grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "1")))
		}
	})
	c := s.client()
	var h1, t1, h2 metadata.MD
	first, err := c.CreateRefund(with("k"), refund, grpc.Header(&h1), grpc.Trailer(&t1))
	s.must(err)
	again, err := c.CreateRefund(with(`"k";p=1`), refund, grpc.Header(&h2))
	s.must(err)
	if !proto.Equal(first, again) || first.GetId() == 0 {
		t.Errorf("%v, then %v", first, again)
	}
	if said(h1) != "stored" || len(h1.Get("x-set")) != 1 || len(t1.Get("x-trailer")) != 1 || h1.Get("idempotency-retention")[0] != "259200" {
		t.Errorf("%v %v", h1, t1)
	}
	if said(h2) != "replayed" || h2.Get("idempotent-replayed")[0] != "true" {
		t.Errorf("%v", h2)
	}
	s.expect(1, 1)
}

// TestRetriesOfGRPC: a client that gRPC itself makes repeat a call says so in a field of gRPC. once-attempt stays the same then.
func TestRetriesOfGRPC(t *testing.T) {
	for said, want := range map[string][]int{"": {0, 2, 3}, "1": {1, 2, 3}, "7": {7, 8, 9}, "2147483647": {math.MaxInt32, math.MaxInt32, math.MaxInt32}} {
		s := start(t, oncegrpc.Config{}, func(s *service) {
			s.before = func(_ context.Context, run int) error {
				if run < 3 {
					return status.Error(codes.Unavailable, "the network is not there")
				}
				return nil
			}
		})
		ctx := with("k")
		if said != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "once-attempt", said)
		}
		conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}],
			"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
		s.must(err)
		_, err = refundsv1.NewRefundsClient(conn).CreateRefund(ctx, refund)
		s.must(errors.Join(err, conn.Close()))
		var got []int
		for _, e := range s.begun {
			got = append(got, e.Attempt.Number)
		}
		if !slices.Equal(got, want) {
			t.Errorf("once-attempt %q: attempts %d, want %d", said, got, want)
		}
		s.expect(1, 3)
	}
}

func TestDuplicatesAtOnce(t *testing.T) {
	s := start(t, oncegrpc.Config{Wait: 10 * time.Second}, nil)
	c := s.client()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if r, err := c.CreateRefund(with("k"), refund); err != nil || r.GetId() != 1 {
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
	s := start(t, oncegrpc.Config{Principal: func(context.Context) string { return principal }}, nil)
	c := s.client()
	_, err := c.CreateRefund(with("k"), refund)
	s.must(err)
	other := &refundsv1.CreateRefundRequest{Charge: "ch_1", Amount: 1001}
	for _, test := range []struct {
		principal string
		ctx       context.Context //nolint:containedctx // that of one call
		req       *refundsv1.CreateRefundRequest
		code      codes.Code
		reason    string
		safe      string
	}{
		{"acme", with("k"), other, codes.FailedPrecondition, "MISMATCH", "false"},
		{"acme", context.Background(), refund, codes.InvalidArgument, "KEY_MISSING", "true"},
		{"acme", with(""), refund, codes.InvalidArgument, "KEY_INVALID", "false"},
		{"acme", with(strings.Repeat("k", 256)), refund, codes.InvalidArgument, "KEY_INVALID", "false"},
		{"acme", metadata.AppendToOutgoingContext(with("a"), "idempotency-key", "b"), refund, codes.InvalidArgument, "KEY_INVALID", "false"},
		{"", with("k"), refund, codes.Unauthenticated, "UNAUTHENTICATED", "false"},
	} {
		principal = test.principal
		_, err := c.CreateRefund(test.ctx, test.req)
		info := infoOf(err)
		if status.Code(err) != test.code || info.GetReason() != test.reason || info.GetMetadata()["safe_new_key"] != test.safe || info.GetMetadata()["retryable"] != "false" {
			t.Errorf("%s: %v, %v", test.reason, err, info)
		}
	}
	s.expect(1, 1)
	principal = "other"
	_, err = c.CreateRefund(with("k"), other)
	s.must(err)
	s.expect(2, 2)
}

func infoOf(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// A final status is stored, with its details, and its writes are not.
func TestFinalStatus(t *testing.T) {
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.before = func(context.Context, int) error {
			st, err := status.New(codes.FailedPrecondition, "refunded already").WithDetails(&errdetails.ErrorInfo{Reason: "REFUNDED", Domain: "example.com"})
			return errors.Join(err, st.Err())
		}
	})
	c := s.client()
	for i, want := range []string{"stored", "replayed"} {
		var h metadata.MD
		_, err := c.CreateRefund(with("k"), refund, grpc.Header(&h))
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "refunded already") || infoOf(err).GetReason() != "REFUNDED" || said(h) != want {
			t.Errorf("%d: %v %v %v", i, err, infoOf(err), h)
		}
	}
	s.expect(0, 1)
}

// After any other error nothing is stored, and a retry executes.
func TestOtherErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		code codes.Code
		text string
	}{
		"status":   {status.Error(codes.Unavailable, "the bank is closed"), codes.Unavailable, "the bank is closed"},
		"unknown":  {status.Error(codes.Unknown, "?"), codes.Unknown, "?"},
		"no":       {status.Error(codes.PermissionDenied, "not you"), codes.PermissionDenied, "not you"},
		"database": {errors.New("password=secret"), codes.Internal, "Nothing was applied."},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, oncegrpc.Config{}, func(s *service) {
				s.before = func(ctx context.Context, run int) error {
					_ = grpc.SetHeader(ctx, metadata.Pairs("x-run", "1"))
					if run == 1 {
						return test.err
					}
					return nil
				}
			})
			c := s.client()
			_, err := c.CreateRefund(with("k"), refund)
			if status.Code(err) != test.code || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
			s.expect(0, 1)
			var h metadata.MD
			_, err = c.CreateRefund(with("k"), refund, grpc.Header(&h))
			s.must(err)
			if said(h) != "stored" {
				t.Error(h)
			}
			s.expect(1, 2)
		})
	}
}

func TestOptionalKeyMayBeMissing(t *testing.T) {
	s := start(t, oncegrpc.Config{Optional: true}, nil)
	c := s.client()
	for range 2 {
		var h metadata.MD
		_, err := c.CreateRefund(context.Background(), refund, grpc.Header(&h))
		s.must(err)
		if said(h) != "ignored" || len(h.Get("idempotency-retention")) != 0 {
			t.Error(h)
		}
	}
	s.expect(2, 2)
}

// What is declared to be harmless has no transaction and needs no key.
func TestHarmlessMethodsNeedNoKey(t *testing.T) {
	s := start(t, oncegrpc.Config{}, nil)
	c := s.client()
	_, err := c.CreateRefund(with("k"), refund)
	s.must(err)
	var h metadata.MD
	got, err := c.GetRefund(context.Background(), &refundsv1.GetRefundRequest{Id: 1}, grpc.Header(&h))
	if err != nil || got.GetAmount() != 1000 || said(h) != "" {
		t.Errorf("%v, %v, %v", got, err, h)
	}
}

// invoke calls an interceptor without a server.
func invoke(i grpc.UnaryServerInterceptor, method string, req any, handle grpc.UnaryHandler) (any, error) {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("idempotency-key", "k"))
	return i(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, handle)
}

// A handler that runs again gets the request as it was.
func TestRerunGetsTheRequestAsItWas(t *testing.T) {
	i := oncegrpc.UnaryServerInterceptor(once.New(memstore.New(), once.Config{}), oncegrpc.Config{Principal: oncegrpc.SharedPrincipal()})
	runs := 0
	got, err := invoke(i, refundsv1.Refunds_CreateRefund_FullMethodName, proto.CloneOf(refund), func(ctx context.Context, req any) (any, error) {
		runs++
		r := req.(*refundsv1.CreateRefundRequest)
		if r.GetAmount() != 1000 || len(r.GetCharge()) != 4 {
			t.Errorf("run %d: %v", runs, r)
		}
		r.Amount, r.Charge = 1, "changed"
		if runs < 3 {
			return nil, &store.Error{Kind: store.KindRetry, Err: errors.New("deadlock")}
		}
		return &refundsv1.Refund{Id: 7}, oncegrpc.Tx[*memstore.Tx](ctx).Insert("refund", "1")
	})
	if err != nil || runs != 3 || got.(*refundsv1.Refund).GetId() != 7 {
		t.Errorf("%v, %v after %d runs", got, err, runs)
	}
}

func TestVainMetadataIsNotSent(t *testing.T) {
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.before = func(ctx context.Context, run int) error {
			if err := grpc.SendHeader(ctx, metadata.Pairs("x-run", strconv.Itoa(run))); err != nil {
				return err
			}
			if run == 1 {
				return &store.Error{Kind: store.KindRetry, Err: errors.New("deadlock")}
			}
			return nil
		}
	})
	var h metadata.MD
	_, err := s.client().CreateRefund(with("k"), refund, grpc.Header(&h))
	s.must(err)
	if got := h.Get("x-run"); len(got) != 1 || got[0] != "2" {
		t.Errorf("%q", got)
	}
	s.expect(1, 2)
}

func TestPassesThrough(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	i := oncegrpc.UnaryServerInterceptor(e, oncegrpc.Config{Principal: oncegrpc.SharedPrincipal()})
	handled := func(ctx context.Context, req any) (any, error) {
		return health.NewServer().Check(ctx, req.(*healthpb.HealthCheckRequest))
	}
	if _, err := invoke(i, healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}, handled); err != nil {
		t.Error(err)
	}
	if _, err := invoke(i, "/x/Y", "no message", nil); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "Try:") {
		t.Error(err)
	}
	got, err := invoke(i, "/x/Y", refund, func(ctx context.Context, req any) (any, error) { // twice the same interceptor
		return i(ctx, req, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, func(context.Context, any) (any, error) { return &refundsv1.Refund{Id: 7}, nil })
	})
	if err != nil || got.(*refundsv1.Refund).GetId() != 7 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestWrongSetupPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"no principal":   func() { oncegrpc.UnaryServerInterceptor(once.New(memstore.New(), once.Config{}), oncegrpc.Config{}) },
		"no transaction": func() { oncegrpc.Tx[*memstore.Tx](context.Background()) },
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
