package oncegrpc_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/store/memstore"
)

var undoes = map[string]string{refundsv1.Refunds_GetRefund_FullMethodName: refundsv1.Refunds_CreateRefund_FullMethodName}

// undoing is a service whose GetRefund takes refunds back; given are the answers that it was given.
func undoing(t *testing.T) (s *service, given *[]int64) {
	given = new([]int64)
	s = start(t, oncegrpc.Config{Undoes: undoes}, nil)
	s.undo = func(ctx context.Context) (*refundsv1.Refund, error) {
		r := oncegrpc.Undone[*refundsv1.Refund](ctx)
		*given = append(*given, r.GetId())
		_, err := oncegrpc.Tx[*sql.Tx](ctx).ExecContext(ctx, "delete from refund where id = ?", r.GetId())
		return &refundsv1.Refund{Charge: "taken back"}, err
	}
	return s, given
}

func undo(c refundsv1.RefundsClient, keys ...string) (r *refundsv1.Refund, header metadata.MD, err error) {
	ctx := metadata.NewOutgoingContext(context.Background(), metadata.MD{"once-undoes": keys, "idempotency-key": {"not looked at"}})
	r, err = c.GetRefund(ctx, &refundsv1.GetRefundRequest{}, grpc.Header(&header))
	return r, header, err
}

// TestUndoOfACall: what was executed is undone once, with its answer; what was not is refused when it comes late.
func TestUndoOfACall(t *testing.T) {
	s, given := undoing(t)
	c := s.client()
	if _, err := c.CreateRefund(with("k"), refund); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r, header, err := undo(c, "k")
		if replayed := len(header.Get("idempotent-replayed")) == 1; err != nil || r.GetCharge() != "taken back" || said(header) != "undone" || replayed != (i > 0) {
			t.Errorf("%v, %v, %v", r, header, err)
		}
	}
	if !slices.Equal(*given, []int64{1}) {
		t.Errorf("given %v", *given)
	}
	s.expect(0, 1)
	for range 2 {
		if r, header, err := undo(c, "late"); err != nil || r.GetCharge() != "" || said(header) != "nothing" {
			t.Errorf("%v, %v, %v", r, header, err)
		}
		_, err := s.retrying(oncegrpc.ClientConfig{}).CreateRefund(with("late"), refund)
		if info := infoOf(err); status.Code(err) != codes.FailedPrecondition || info.GetReason() != "UNDONE" || info.GetMetadata()["retryable"] != "false" || info.GetMetadata()["safe_new_key"] != "false" {
			t.Errorf("a late call: %v", err)
		}
	}
	s.expect(0, 1)
	if calls := len(s.keys()); calls != 8 { // the client has not repeated what is refused for good
		t.Errorf("%d calls", calls)
	}
}

// TestUndoOfAnAnswerThatIsNotStored: the undo is refused, and its error says that the undo was not executed.
func TestUndoOfAnAnswerThatIsNotStored(t *testing.T) {
	s := start(t, oncegrpc.Config{Undoes: undoes, MaxStored: 1}, nil)
	s.undo = func(context.Context) (*refundsv1.Refund, error) {
		t.Error("the undo was executed")
		return nil, errors.New("executed")
	}
	if _, err := s.client().CreateRefund(with("k"), refund); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _, err := undo(s.client(), "k")
		if text := status.Convert(err).Message(); infoOf(err).GetReason() != "RESULT_UNAVAILABLE" || !strings.HasPrefix(text, "The undo was not executed") {
			t.Errorf("%s: %s", infoOf(err).GetReason(), text)
		}
	}
	if _, _, err := undo(s.retrying(oncegrpc.ClientConfig{}), "k"); once.CodeOf(err) != once.CodeNoResult || !strings.Contains(err.Error(), "The undo was not executed") {
		t.Errorf("the client of this library: %v", err)
	}
	s.expect(1, 1)
}

// TestUndoOfACallUnderWay: it is told to come again. Without the key of what it undoes it is refused, and what has ended with a "no" is not undone.
func TestUndoOfACallUnderWay(t *testing.T) {
	s, given := undoing(t)
	c := s.client()
	var during error
	s.before = func(context.Context, int) error {
		_, _, during = undo(c, "k")
		return status.Error(codes.NotFound, "no such charge")
	}
	if _, err := c.CreateRefund(with("k"), refund); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if status.Code(during) != codes.Aborted || infoOf(during).GetReason() != "IN_FLIGHT" {
		t.Error(during)
	}
	if _, header, err := undo(c, "k"); err != nil || said(header) != "nothing" {
		t.Errorf("%v, %v", header, err)
	}
	for reason, keys := range map[string][]string{"KEY_MISSING": nil, "KEY_INVALID": {"a", "b"}} {
		if _, _, err := undo(c, keys...); infoOf(err).GetReason() != reason {
			t.Errorf("%s: %v", reason, err)
		}
	}
	s.before = nil
	if _, err := c.CreateRefund(with("k2"), refund); err != nil {
		t.Fatal(err)
	}
	s.undo = func(context.Context) (*refundsv1.Refund, error) { return nil, errors.New("down") }
	if _, _, err := undo(c, "k2"); status.Code(err) != codes.Internal && status.Code(err) != codes.Unknown {
		t.Error(err)
	}
	s.undo = func(context.Context) (*refundsv1.Refund, error) {
		return nil, status.Error(codes.FailedPrecondition, "spent")
	}
	for _, want := range []string{"stored", "replayed"} {
		if _, header, err := undo(c, "k2"); status.Code(err) != codes.FailedPrecondition || said(header) != want {
			t.Errorf("%v, %v", header, err)
		}
	}
	if len(*given) != 0 {
		t.Errorf("given %v", *given)
	}
}

// TestUndoOfLeasedCalls: work that is several commits is refused at the start.
func TestUndoOfLeasedCalls(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	oncegrpc.UnaryServerInterceptor(once.New(lease.New(memstore.New(), lease.Config{}), once.Config{}), oncegrpc.Config{Principal: oncegrpc.SharedPrincipal(), Undoes: undoes})
}
