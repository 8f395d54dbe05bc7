package onceconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// kept is a service whose calls store a little. It is called without a network.
type kept struct {
	http.Handler

	runs int
}

// Do implements [connect.HTTPClient].
func (s *kept) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

func (s *kept) CreateRefund(ctx context.Context, _ *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	s.runs++
	return &refundsv1.Refund{Id: 1}, onceconnect.Tx[*memstore.Tx](ctx).Put(fmt.Sprint(s.runs), "")
}

// GetRefund takes a refund back.
func (s *kept) GetRefund(ctx context.Context, _ *refundsv1.GetRefundRequest) (*refundsv1.Refund, error) {
	return s.CreateRefund(ctx, nil)
}

// TestQuotaAnswersResourceExhausted: a principal that has its quota stored begins no new call: resource_exhausted with the time until the next count. Its replays are answered, its
// undos are executed, and another principal is not refused. When its answers are not kept any more it goes on.
func TestQuotaAnswersResourceExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := once.New(memstore.New(), once.Config{Observer: once.Discard})
		quota := limit.NewQuota(e.Store(), limit.QuotaConfig{Bytes: 2 * upkeep.RecordSize})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = quota.Run(ctx) }()
		synctest.Wait()
		mux, s := http.NewServeMux(), new(kept)
		s.Handler = mux
		mux.Handle(refundsv1.NewRefundsHandler(s, connect.WithInterceptors(onceconnect.NewInterceptor(e, onceconnect.Config{
			Principal: func(_ context.Context, r connect.AnyRequest) string { return r.Header().Get("Account") },
			Retain:    time.Hour, Undoes: map[string]string{refundsv1.RefundsGetRefundProcedure: refundsv1.RefundsCreateRefundProcedure}, Quota: quota,
		}))))
		c := refundsv1.NewRefundsClient(s, "http://service")
		create := func(account, key string) error {
			ctx, info := with(key)
			info.RequestHeader().Set("Account", account)
			_, err := c.CreateRefund(ctx, refund)
			return err
		}
		want := func(what string, err error, executed int) {
			t.Helper()
			if err != nil || s.runs != executed {
				t.Errorf("%s: %v, %d runs, want %d", what, err, s.runs, executed)
			}
		}
		want("the first", create("acme", "1"), 1)
		want("the second, which fills it", create("acme", "2"), 2)
		refused := create("acme", "new")
		info := infoOf(refused)
		if connect.CodeOf(refused) != connect.CodeResourceExhausted || info.GetReason() != "STORED_BYTES" || info.GetMetadata()["retryable"] != "true" || info.GetMetadata()["safe_new_key"] != "false" || after(refused) != time.Minute || s.runs != 2 {
			t.Errorf("%v, %v, again after %v, %d runs", refused, info, after(refused), s.runs)
		}
		want("a replay", create("acme", "1"), 2)
		want("another principal", create("other", "1"), 3)
		undo, undoing := with()
		undoing.RequestHeader().Set("Account", "acme")
		undoing.RequestHeader().Set("Once-Undoes", "1")
		_, err := c.GetRefund(undo, &refundsv1.GetRefundRequest{})
		want("an undo", err, 4)
		if err := create("acme", "new"); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Error(err)
		}
		<-time.After(time.Hour + time.Minute)
		synctest.Wait()
		want("after the retention", create("acme", "new"), 5)
	})
}

// after is when a call may be made again.
func after(err error) time.Duration {
	var e *connect.Error
	if !errors.As(err, &e) {
		return 0
	}
	for _, d := range e.Details() {
		m, _ := d.Value()
		if r, ok := m.(*errdetails.RetryInfo); ok {
			return r.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
