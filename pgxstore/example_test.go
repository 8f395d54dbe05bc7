package pgxstore_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/pgxstore"
)

// A service on PostgreSQL, whole.
func Example() {
	ctx := context.Background()
	mux := http.NewServeMux()
	serve := func() error {
		pool, err := pgxpool.New(ctx, "postgres://localhost/app")
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := pgxstore.Migrate(ctx, pool); err != nil { // its tables, once
			return err
		}
		engine := once.New(pgxstore.New(pool), once.Config{})

		idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: tenant})
		mux.Handle("POST /refunds", idempotent(http.HandlerFunc(createRefund)))
		return http.ListenAndServe("localhost:8080", mux)
	}
	fmt.Println(serve())
}

func createRefund(w http.ResponseWriter, r *http.Request) {
	tx := oncehttp.Tx[pgx.Tx](r.Context()) // an ordinary pgx transaction
	_, err := tx.Exec(r.Context(), "insert into refund (charge) values ($1)", r.FormValue("charge"))
	if err != nil {
		oncehttp.Fail(w, r, err) // rolled back; run again after a deadlock, otherwise 500
		return
	}
	w.WriteHeader(http.StatusCreated) // it commits when you return, before anything is sent
}

// tenant is what authentication has found out: never what the client says of itself.
func tenant(r *http.Request) string {
	t, _ := r.Context().Value(tenantKey{}).(string)
	return t
}

type tenantKey struct{}

type Charge struct {
	ID     string
	Amount int
}

// Key, writes, answer and COMMIT are one round trip.
func Example_batch() {
	var engine *once.Engine[pgx.Tx] // as above

	place := func(ctx context.Context, op once.Operation, c Charge) (once.Result[Charge], error) {
		charge, err := once.DoBatch(ctx, engine, op, func(b *once.Batch) (Charge, error) {
			b.Exec("insert into charge (id, amount) values ($1, $2)", c.ID, c.Amount)
			b.ExecRows(1, "update account set balance = balance - $2 where id = $1", 7, c.Amount)
			return c, nil
		})
		return charge, err
	}

	serve := func() http.Handler {
		cfg := oncehttp.Config{Principal: tenant}
		return oncehttp.BatchHandler(engine, cfg, func(w http.ResponseWriter, r *http.Request, b *once.Batch) {
			id := once.NewKey() // nothing has to be read for it
			b.Exec("insert into refund (id, charge) values ($1, $2)", id, r.FormValue("charge"))
			w.Header().Set("Location", "/refunds/"+id)
			w.WriteHeader(http.StatusCreated)
		})
	}

	_, _ = place, serve
}
