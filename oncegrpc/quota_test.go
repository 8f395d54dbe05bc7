package oncegrpc_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestQuotaAnswersResourceExhausted: a principal that has its quota stored begins no new call: RESOURCE_EXHAUSTED with the time until the next count. Its replays are answered, its
// undos are executed, and another principal is not refused. When its answers are not kept any more it goes on.
func TestQuotaAnswersResourceExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := once.New(memstore.New(), once.Config{Observer: once.Discard})
		quota := limit.NewQuota(e.Store(), limit.QuotaConfig{Bytes: 2 * upkeep.RecordSize})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = quota.Run(ctx) }()
		synctest.Wait()
		protect := oncegrpc.UnaryServerInterceptor(e, oncegrpc.Config{
			Principal: func(ctx context.Context) string { return metadata.ValueFromIncomingContext(ctx, "account")[0] },
			Retain:    time.Hour, Undoes: undoes, Quota: quota,
		})
		runs := 0
		call := func(method, account, header, key string) error {
			ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("account", account, header, key))
			_, err := protect(ctx, &refundsv1.CreateRefundRequest{}, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
				runs++
				return &refundsv1.Refund{}, oncegrpc.Tx[*memstore.Tx](ctx).Put(fmt.Sprint(runs), "")
			})
			return err
		}
		create := func(account, key string) error {
			return call(refundsv1.Refunds_CreateRefund_FullMethodName, account, "idempotency-key", key)
		}
		want := func(what string, err error, executed int) {
			t.Helper()
			if err != nil || runs != executed {
				t.Errorf("%s: %v, %d runs, want %d", what, err, runs, executed)
			}
		}
		want("the first", create("acme", "1"), 1)
		want("the second, which fills it", create("acme", "2"), 2)
		refused := create("acme", "new")
		var after time.Duration
		for _, d := range status.Convert(refused).Details() {
			if r, ok := d.(*errdetails.RetryInfo); ok {
				after = r.GetRetryDelay().AsDuration()
			}
		}
		info := infoOf(refused)
		if status.Code(refused) != codes.ResourceExhausted || info.GetReason() != "STORED_BYTES" || info.GetMetadata()["retryable"] != "true" || info.GetMetadata()["safe_new_key"] != "false" || after != time.Minute || runs != 2 {
			t.Errorf("%v, %v, again after %v, %d runs", refused, info, after, runs)
		}
		want("a replay", create("acme", "1"), 2)
		want("another principal", create("other", "1"), 3)
		want("an undo", call(refundsv1.Refunds_GetRefund_FullMethodName, "acme", "once-undoes", "1"), 4)
		if err := create("acme", "new"); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
		<-time.After(time.Hour + time.Minute)
		synctest.Wait()
		want("after the retention", create("acme", "new"), 5)
	})
}
