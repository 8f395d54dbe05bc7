package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// shipping ships orders. No constraint of its tables prevents a second shipment of an order: the inbox does.
var shipping = service{
	name: "shipping",
	tables: []string{
		"create table if not exists shelf (item text primary key, name text not null)",
		"insert into shelf (item, name) values ('tea', 'A1'), ('coffee', 'A2') on conflict do nothing",
		"create table if not exists shipment (id text primary key, order_id text not null, customer text not null, item text not null, shelf text not null, shipped_at text not null)",
	},
	reads: ordersTopic,
	apply: ship,
	routes: func(mux *http.ServeMux, db *sql.DB, _ *once.Engine[*sql.Tx], _ *outbox.Box[*sql.Tx]) {
		mux.Handle("GET /shipments", list(db, "select shipped_at, order_id, customer, item, shelf from shipment order by shipped_at"))
		mux.Handle("PUT /shelves/{item}/{name}", putShelf(db))
	},
}

// ship applies the event of an order: the shipment, its event, and the fact that the order was handled commit together.
func ship(box *outbox.Box[*sql.Tx]) inbox.Handler[*sql.Tx] {
	return func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		var o order
		if err := json.Unmarshal(m.Payload, &o); err != nil {
			return retry.Permanent(err)
		}
		var shelf string
		err := tx.QueryRowContext(ctx, "select name from shelf where item = $1", o.Item).Scan(&shelf)
		if errors.Is(err, sql.ErrNoRows) { // a dead letter: a person must look at it. Later orders of the customer wait for it, orders of other customers go on
			return retry.Permanent(fmt.Errorf("no shelf has the item %q", o.Item))
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "insert into shipment (id, order_id, customer, item, shelf, shipped_at) values ($1, $2, $3, $4, $5, $6)",
				"ship-"+rand.Text()[:8], o.ID, o.Customer, o.Item, shelf, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		}
		if err != nil {
			return err // the inbox tries again
		}
		return tell(ctx, box, tx, shipmentsTopic, "order.shipped", o)
	}
}

// putShelf needs no key: a repetition has no further effect.
func putShelf(db *sql.DB) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, err := db.ExecContext(r.Context(), "insert into shelf (item, name) values ($1, $2) on conflict (item) do update set name = excluded.name",
			r.PathValue("item"), r.PathValue("name"))
		if err != nil {
			http.Error(w, "the request has failed: try again", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
