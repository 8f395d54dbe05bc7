package payments

import (
	"context"
	"net/http"
)

// Charge is money that a card processor has captured for a tenant.
type Charge struct {
	ID        string `json:"id"`
	Amount    int64  `json:"amount"`
	Refunded  int64  `json:"refunded"`
	Currency  string `json:"currency"`
	Customer  string `json:"customer"`
	CreatedAt string `json:"created_at"`

	description string // only Stripe's API has a description and metadata
	metadata    metadata
}

func createCharge(r *http.Request, tx queries) (answer, error) {
	in, err := readForm(r)
	if err != nil {
		return answer{}, err
	}
	c := Charge{
		ID:        newID("ch_"),
		Amount:    in.amount("amount"),
		Currency:  in.currency("currency"),
		Customer:  in.text("customer", 64),
		CreatedAt: now(),
	}
	if err := in.err(); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, location: "/charges/" + c.ID, body: c}, take(r.Context(), tx, tenant(r), c)
}

// take makes the charge c. It reads nothing, so that it can be a part of a batch.
func take(ctx context.Context, tx queries, tenant string, c Charge) error {
	_, err := tx.exec(ctx, `
		insert into charge (tenant, id, amount, currency, customer, created_at, description, metadata)
		values ($1, $2, $3, $4, $5, $6, $7, $8)`,
		tenant, c.ID, c.Amount, c.Currency, c.Customer, c.CreatedAt, c.description, c.metadata.stored())
	if err == nil {
		err = emit(ctx, tx, ChargesTopic, "charge.succeeded", c.ID, c)
	}
	return err
}

func getCharge(r *http.Request, tx queries) (answer, error) {
	c, err := chargeByID(r.Context(), tx, tenant(r), r.PathValue("id"))
	return answer{status: http.StatusOK, body: c}, err
}

func chargeByID(ctx context.Context, tx queries, tenant, id string) (c Charge, err error) {
	if !printable(id) {
		return c, notFound("charge", id)
	}
	found, err := one(ctx, tx, []any{&c.ID, &c.Amount, &c.Refunded, &c.Currency, &c.Customer, &c.CreatedAt, &c.description, &c.metadata}, `
		select id, amount, refunded, currency, customer, created_at, description, metadata
		from charge where tenant = $1 and id = $2`, tenant, id)
	if err == nil && !found {
		err = notFound("charge", id)
	}
	return c, err
}
