package onceconnect_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
)

// TestUndoOfAnAnswerThatIsNotStored: the undo is refused, and its error says that the undo was not executed.
func TestUndoOfAnAnswerThatIsNotStored(t *testing.T) {
	for name, protocol := range protocols {
		s := start(t, onceconnect.Config{Undoes: map[string]string{refundsv1.RefundsGetRefundProcedure: refundsv1.RefundsCreateRefundProcedure}, MaxStored: 1}, nil)
		s.undo = func(context.Context) (*refundsv1.Refund, error) {
			t.Errorf("%s: the undo was executed", name)
			return nil, errors.New("executed")
		}
		c := s.client(protocol)
		ctx, _ := with("k")
		if _, err := c.CreateRefund(ctx, refund); err != nil {
			t.Fatal(name, err)
		}
		ctx, info := with("u")
		info.RequestHeader().Set("Once-Undoes", "k")
		_, err := c.GetRefund(ctx, &refundsv1.GetRefundRequest{})
		if infoOf(err).GetReason() != "RESULT_UNAVAILABLE" || !strings.Contains(err.Error(), "The undo was not executed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUndoOfACall: over each protocol, what was executed is undone once, with its answer; what was not is refused when it comes late; and what is
// under way is told to come again.
func TestUndoOfACall(t *testing.T) {
	for name, protocol := range protocols {
		s := start(t, onceconnect.Config{Undoes: map[string]string{refundsv1.RefundsGetRefundProcedure: refundsv1.RefundsCreateRefundProcedure}}, nil)
		c := s.client(protocol)
		var given []int64
		s.undo = func(ctx context.Context) (*refundsv1.Refund, error) {
			r := onceconnect.Undone[*refundsv1.Refund](ctx)
			given = append(given, r.GetId())
			_, err := onceconnect.Tx[*sql.Tx](ctx).ExecContext(ctx, "delete from refund where id = ?", r.GetId())
			return &refundsv1.Refund{Charge: "taken back"}, err
		}
		undo := func(key string) (charge, said string, err error) {
			ctx, info := with("not looked at")
			info.RequestHeader().Set("Once-Undoes", key)
			r, err := c.GetRefund(ctx, &refundsv1.GetRefundRequest{})
			return r.GetCharge(), info.ResponseHeader().Get("Idempotency-Status"), err
		}
		var during error
		s.before = func(context.Context, int) error {
			_, _, during = undo("k")
			return nil
		}
		ctx, _ := with("k")
		if _, err := c.CreateRefund(ctx, refund); err != nil {
			t.Fatal(name, err)
		}
		if connect.CodeOf(during) != connect.CodeAborted || infoOf(during).GetReason() != "IN_FLIGHT" {
			t.Errorf("%s: under way: %v", name, during)
		}
		for range 2 {
			if charge, said, err := undo("k"); charge != "taken back" || said != "undone" || err != nil {
				t.Errorf("%s: %q, %q, %v", name, charge, said, err)
			}
			if charge, said, err := undo("late"); charge != "" || said != "nothing" || err != nil {
				t.Errorf("%s: %q, %q, %v", name, charge, said, err)
			}
			ctx, _ := with("late")
			if _, err := c.CreateRefund(ctx, refund); connect.CodeOf(err) != connect.CodeFailedPrecondition || infoOf(err).GetReason() != "UNDONE" {
				t.Errorf("%s: a late call: %v", name, err)
			}
		}
		if !slices.Equal(given, []int64{1}) {
			t.Errorf("%s: given %v", name, given)
		}
		s.expect(0, 1)
	}
}
