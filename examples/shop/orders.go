package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// orders accepts orders, and marks the ones that are shipped.
var orders = service{
	name: "orders",
	tables: []string{
		"create table if not exists purchase (id text primary key, customer text not null, item text not null, state text not null)",
	},
	reads: shipmentsTopic,
	apply: func(*outbox.Box[*sql.Tx]) inbox.Handler[*sql.Tx] { return markShipped },
	routes: func(mux *http.ServeMux, db *sql.DB, engine *once.Engine[*sql.Tx], box *outbox.Box[*sql.Tx]) {
		// Add authentication before this, and let Principal return the authenticated customer.
		mux.Handle("POST /orders", oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, placeOrder(box)))
		mux.Handle("GET /orders", list(db, "select id, customer, item, state from purchase order by id"))
	},
}

// order is the payload of the events of both services.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
}

// placeOrder writes an order and its event: both commit, or neither does. A retry with the same Idempotency-Key gets the same answer.
func placeOrder(box *outbox.Box[*sql.Tx]) func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
	return func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Customer == "" || o.Item == "" {
			http.Error(w, `the body is not an order. Try: {"customer":"ada","item":"tea"}`, http.StatusBadRequest)
			return
		}
		o.ID = "order-" + rand.Text()[:8]
		_, err := tx.ExecContext(r.Context(), "insert into purchase (id, customer, item, state) values ($1, $2, $3, 'placed')", o.ID, o.Customer, o.Item)
		if err == nil {
			err = tell(r.Context(), box, tx, ordersTopic, "order.placed", o)
		}
		if err != nil {
			oncehttp.Fail(w, r, err) // rolls both back
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(o)
	}
}

// markShipped applies the event of a shipment.
func markShipped(ctx context.Context, tx *sql.Tx, m message.Message) error {
	var o order
	if err := json.Unmarshal(m.Payload, &o); err != nil {
		return retry.Permanent(err) // a dead letter now: another attempt cannot change it
	}
	_, err := tx.ExecContext(ctx, "update purchase set state = 'shipped' where id = $1", o.ID)
	return err
}

// tell adds an event to the outbox. The events of one customer arrive in order.
func tell(ctx context.Context, box *outbox.Box[*sql.Tx], tx *sql.Tx, topic, what string, o order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return box.Add(ctx, tx, message.Message{Topic: topic, Key: o.Customer, Type: what, Payload: payload})
}
