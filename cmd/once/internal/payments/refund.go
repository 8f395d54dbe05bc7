package payments

import (
	"context"
	"net/http"
)

// Refund gives back a part of a charge, or all of it.
//
// A refund begins as succeeded. It can become voided, which is final.
type Refund struct {
	ID        string  `json:"id"`
	ChargeID  string  `json:"charge_id"`
	Amount    int64   `json:"amount"`
	Status    string  `json:"status"`
	CreatedAt string  `json:"created_at"`
	VoidedAt  *string `json:"voided_at,omitempty"`

	reason   string // only Stripe's API has a reason and metadata
	metadata metadata
}

const (
	succeeded = "succeeded"
	voided    = "voided"
)

func createRefund(r *http.Request, tx queries) (answer, error) {
	in, err := readForm(r)
	if err != nil {
		return answer{}, err
	}
	re := Refund{
		ID:        newID("rf_"),
		ChargeID:  in.text("charge_id", 64),
		Amount:    in.amount("amount"),
		Status:    succeeded,
		CreatedAt: now(),
	}
	if err := in.err(); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, location: "/refunds/" + re.ID, body: re}, give(r.Context(), tx, tenant(r), re)
}

// give makes the refund re, if the rest of the charge is large enough.
func give(ctx context.Context, tx queries, tenant string, re Refund) error {
	// The condition and the row lock are one statement: of two refunds that run at
	// the same time, the second sees what the first has left.
	n, err := tx.exec(ctx, `
		update charge set refunded = refunded + $3
		where tenant = $1 and id = $2 and amount - refunded >= $3`,
		tenant, re.ChargeID, re.Amount)
	if err != nil {
		return err
	}
	if n == 0 {
		return whyNoRefund(ctx, tx, tenant, re)
	}
	_, err = tx.exec(ctx, `
		insert into refund (tenant, id, charge_id, amount, status, created_at, reason, metadata)
		values ($1, $2, $3, $4, $5, $6, $7, $8)`,
		tenant, re.ID, re.ChargeID, re.Amount, re.Status, re.CreatedAt, re.reason, re.metadata.stored())
	if err == nil {
		err = post(ctx, tx, tenant, re, re.CreatedAt, refunds, cash)
	}
	if err == nil {
		err = emit(ctx, tx, RefundsTopic, refundSucceeded, re.ChargeID, re)
	}
	return err
}

func whyNoRefund(ctx context.Context, tx queries, tenant string, re Refund) error {
	c, err := chargeByID(ctx, tx, tenant, re.ChargeID)
	if err != nil {
		return err
	}
	return exceeds(c.Amount - c.Refunded)
}

func voidRefund(r *http.Request, tx queries) (answer, error) {
	if err := noBody(r); err != nil {
		return answer{}, err
	}
	ctx, tenant, id, at := r.Context(), tenant(r), r.PathValue("id"), now()
	if !printable(id) {
		return answer{}, notFound("refund", id)
	}
	n, err := tx.exec(ctx, `
		update refund set status = $3, voided_at = $4
		where tenant = $1 and id = $2 and status = $5`,
		tenant, id, voided, at, succeeded)
	if err != nil {
		return answer{}, err
	}
	re, err := refundByID(ctx, tx, tenant, id)
	if err != nil {
		return answer{}, err
	}
	if n == 0 {
		return answer{}, alreadyVoided(id)
	}
	_, err = tx.exec(ctx, `
		update charge set refunded = refunded - $3 where tenant = $1 and id = $2`,
		tenant, re.ChargeID, re.Amount)
	if err == nil {
		err = post(ctx, tx, tenant, re, at, cash, refunds)
	}
	if err == nil {
		err = emit(ctx, tx, RefundsTopic, "refund.voided", re.ChargeID, re)
	}
	return answer{status: http.StatusOK, body: re}, err
}

func getRefund(r *http.Request, tx queries) (answer, error) {
	re, err := refundByID(r.Context(), tx, tenant(r), r.PathValue("id"))
	return answer{status: http.StatusOK, body: re}, err
}

func refundByID(ctx context.Context, tx queries, tenant, id string) (re Refund, err error) {
	if !printable(id) {
		return re, notFound("refund", id)
	}
	found, err := one(ctx, tx, []any{&re.ID, &re.ChargeID, &re.Amount, &re.Status, &re.CreatedAt, &re.VoidedAt, &re.reason, &re.metadata}, `
		select id, charge_id, amount, status, created_at, voided_at, reason, metadata
		from refund where tenant = $1 and id = $2`, tenant, id)
	if err == nil && !found {
		err = notFound("refund", id)
	}
	return re, err
}
