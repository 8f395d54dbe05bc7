package onceconnect_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// counted counts its calls.
type counted struct{ runs int }

func (s *counted) CreateRefund(ctx context.Context, _ *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	s.runs++
	return &refundsv1.Refund{Id: 1}, onceconnect.Tx[*memstore.Tx](ctx).Put("k", "v")
}

func (*counted) GetRefund(context.Context, *refundsv1.GetRefundRequest) (*refundsv1.Refund, error) {
	return nil, sql.ErrNoRows
}

// An interceptor inside of another one of the same engine, or of oncehttp's middleware, is
// part of its operation. Where its own Config would have no effect, the call says so, and
// nothing is executed.
func TestNestedInterceptors(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	cfg := onceconnect.Config{Principal: onceconnect.SharedPrincipal()}
	protect := oncehttp.Middleware(e, oncehttp.Config{Principal: oncehttp.SharedPrincipal()})
	for name, change := range map[string]func(*onceconnect.Config){
		"":                 func(*onceconnect.Config) {},
		"Config.Isolation": func(c *onceconnect.Config) { c.Isolation = store.Serializable },
		"Config.Retain":    func(c *onceconnect.Config) { c.Retain = time.Hour },
		"the transport":    nil,
	} {
		outer, inner, around := onceconnect.NewInterceptor(e, cfg), cfg, func(next http.Handler) http.Handler { return next }
		if change == nil {
			outer, around = connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc { return next }), protect
		} else {
			change(&inner)
		}
		s := new(counted)
		mux := http.NewServeMux()
		mux.Handle(refundsv1.NewRefundsHandler(s, connect.WithInterceptors(outer, onceconnect.NewInterceptor(e, inner))))
		server := httptest.NewServer(around(mux))
		defer server.Close()
		client := connect.NewClient[refundsv1.CreateRefundRequest, refundsv1.Refund](server.Client(), server.URL+refundsv1.RefundsCreateRefundProcedure)
		req := connect.NewRequest(&refundsv1.CreateRefundRequest{Charge: "ch_1"})
		req.Header().Set("Idempotency-Key", once.NewKey())
		_, err := client.CallUnary(t.Context(), req)
		if name == "" {
			if err != nil || s.runs != 1 {
				t.Errorf("the same Config: %v, %d runs", err, s.runs)
			}
		} else if text := connectError(err); s.runs != 0 || !strings.Contains(text, name+" ") || !strings.Contains(text, "Try: ") {
			t.Errorf("%s: %v, %d runs", name, err, s.runs)
		}
	}
}

func connectError(err error) string {
	if err == nil || connect.CodeOf(err) != connect.CodeInternal {
		return ""
	}
	return err.Error()
}
