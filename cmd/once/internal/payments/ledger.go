package payments

import (
	"context"
	"net/http"
)

// Entry is one side of a posting. Entries are never changed: a mistake is corrected by a posting in the other direction.
type Entry struct {
	ID        string `json:"id"`
	ChargeID  string `json:"charge_id"`
	RefundID  string `json:"refund_id"`
	Account   string `json:"account"`
	Direction string `json:"direction"`
	Amount    int64  `json:"amount"`
	CreatedAt string `json:"created_at"`
}

// The accounts. A refund moves money from cash to refunds, and voiding the refund moves it back.
const (
	cash    = "cash"
	refunds = "refunds"
)

// post writes the two entries that move re.Amount from the account credit to the account debit. It is one statement.
func post(ctx context.Context, tx queries, tenant string, re Refund, at, debit, credit string) error {
	_, err := tx.exec(ctx, `
		insert into ledger_entry (tenant, charge_id, refund_id, amount, created_at, id, account, direction)
		values ($1, $2, $3, $4, $5, $6, $7, 'debit'), ($1, $2, $3, $4, $5, $8, $9, 'credit')`,
		tenant, re.ChargeID, re.ID, re.Amount, at, newID("le_"), debit, newID("le_"), credit)
	return err
}

func getLedger(r *http.Request, tx queries) (answer, error) {
	id := r.URL.Query().Get("charge_id")
	if id == "" {
		return answer{}, invalidFields(http.StatusUnprocessableEntity,
			fieldError{"charge_id", "missing_field", "is required, as a query parameter"})
	}
	if _, err := chargeByID(r.Context(), tx, tenant(r), id); err != nil {
		return answer{}, err
	}
	entries := []Entry{}
	err := tx.each(r.Context(), func(scan func(...any) error) error {
		var e Entry
		err := scan(&e.ID, &e.ChargeID, &e.RefundID, &e.Account, &e.Direction, &e.Amount, &e.CreatedAt)
		entries = append(entries, e)
		return err
	}, `
		select id, charge_id, refund_id, account, direction, amount, created_at
		from ledger_entry where tenant = $1 and charge_id = $2
		order by created_at, refund_id, direction desc`, tenant(r), id)
	return answer{status: http.StatusOK, body: map[string][]Entry{"entries": entries}}, err
}
