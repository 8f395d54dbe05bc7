package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once"
)

// businessSchema is what the service would have without idempotency keys.
const businessSchema = `
create table charge (
	id         text primary key,
	customer   text not null,
	amount     bigint not null,
	currency   text not null,
	created_at timestamptz not null default now()
);
create table ledger_entry (
	id        text primary key,
	charge_id text not null,
	account   text not null,
	direction text not null,
	amount    bigint not null
);`

// order is one request. Its ids are made by the client, so that the two inserts
// are all there is to do.
type order struct {
	ChargeID string `json:"-"`
	EntryID  string `json:"-"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Customer string `json:"customer"`
	Memo     string `json:"memo"`
}

// receipt is the response: about 300 bytes of JSON.
type receipt struct {
	Object      string `json:"object"`
	ID          string `json:"id"`
	Entry       string `json:"ledger_entry"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Customer    string `json:"customer"`
	Status      string `json:"status"`
	Description string `json:"description"`
	Self        string `json:"self"`
}

func newOrder() order {
	return order{
		ChargeID: "ch_" + once.NewKey(), EntryID: "le_" + once.NewKey(),
		Amount: 1000, Currency: "eur", Customer: "cus_4711", Memo: "two seats, row 7",
	}
}

// fingerprint is what every contestant that keeps keys computes and stores.
func (o order) fingerprint() once.Fingerprint {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and a number
	}
	return once.FingerprintOf([]byte("POST"), []byte("/charges"), body)
}

// execer is a transaction of any contestant.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

const (
	insertChargeText = `insert into charge (id, customer, amount, currency) values ($1, $2, $3, $4)`
	insertEntryText  = `insert into ledger_entry (id, charge_id, account, direction, amount) values ($1, $2, $3, $4, $5)`
)

// place is the business transaction: two inserts, one round trip each.
func (o order) place(ctx context.Context, tx execer) (receipt, error) {
	_, err := tx.Exec(ctx, insertChargeText,
		o.ChargeID, o.Customer, o.Amount, o.Currency)
	if err != nil {
		return receipt{}, err
	}
	_, err = tx.Exec(ctx, insertEntryText,
		o.EntryID, o.ChargeID, "receivable", "debit", o.Amount)
	if err != nil {
		return receipt{}, err
	}
	return o.response(), nil
}

func (o order) response() receipt {
	return receipt{
		Object: "charge", ID: o.ChargeID, Entry: o.EntryID, Amount: o.Amount, Currency: o.Currency, Customer: o.Customer,
		Status: "succeeded", Description: o.Memo, Self: "https://api.example.com/charges/" + o.ChargeID,
	}
}
