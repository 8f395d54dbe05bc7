package killstorm

import (
	"context"
	"database/sql"
	_ "embed" // the shop in Python and in Node
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/store/sqlplane"
)

// ShopPython and ShopNode are a [Shop] in Python 3, and in Node with node:sqlite. Their arguments are the file of the database, the port, and
// "receipts" if they write receipts.
var (
	//go:embed shop/shop.py
	ShopPython []byte

	//go:embed shop/shop.mjs
	ShopNode []byte
)

// ShopTables returns the statements that make the tables of a shop in SQLite. No key keeps an order from being charged twice.
func ShopTables() ([]string, error) {
	ddl, err := receipt.DDL(sqlplane.SQLite)
	return []string{
		"pragma journal_mode = wal", // so that the witness reads while the shop writes
		"create table charge (order_id text not null, cents integer not null)",
		"create table arrival (order_id text not null, operation text not null)",
		ddl,
	}, err
}

const fateHeader = "Demo-Fate"

// Fates are the faults of the first request of an order.
const (
	fateAnswered = ""       // the shop answers
	fateBefore   = "before" // the shop is killed before its commit
	fateAfter    = "after"  // the shop is killed after its commit, before its answer
	fateSilent   = "silent" // the shop does not answer after its commit; the gateway is killed meanwhile
)

// Shop is a service that charges cards and does not know idempotency keys. It kills itself at the point that its client asks for.
type Shop struct {
	DB       *sql.DB
	Receipts bool // it writes receipts
}

type shopOrder struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// ServeHTTP implements [http.Handler].
func (s Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		return // a health check
	}
	var o shopOrder
	err := json.NewDecoder(r.Body).Decode(&o)
	var fate string
	if err == nil {
		fate, err = s.arrived(r, o)
	}
	body := []byte(`{"charged":"` + o.Order + `"}`)
	if err == nil {
		err = s.charge(r, o, body, fate)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case fate == fateAfter:
		die()
	case fate == fateSilent:
		<-r.Context().Done()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body) // if the connection is lost, the client sends the order again
}

// arrived records that a request has come, and returns its fault. Only the first request of an order has one.
func (s Shop) arrived(r *http.Request, o shopOrder) (fate string, err error) {
	ctx := context.WithoutCancel(r.Context())
	earlier := 0
	err = s.DB.QueryRowContext(ctx, "select count(*) from arrival where order_id = ?", o.Order).Scan(&earlier)
	if err == nil {
		_, err = s.DB.ExecContext(ctx, "insert into arrival (order_id, operation) values (?, ?)", o.Order, r.Header.Get(gateway.OperationHeader))
	}
	if earlier > 0 {
		return fateAnswered, err
	}
	return r.Header.Get(fateHeader), err
}

func (s Shop) charge(r *http.Request, o shopOrder, body []byte, fate string) error {
	ctx := context.WithoutCancel(r.Context())
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into charge (order_id, cents) values (?, ?)", o.Order, o.Cents)
	if err == nil && s.Receipts {
		_, err = tx.ExecContext(ctx, "insert into once_receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)",
			r.Header.Get(gateway.OperationHeader), r.Header.Get(gateway.FingerprintHeader), body)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if fate == fateBefore {
		die()
	}
	return tx.Commit()
}

// die kills this process.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}
