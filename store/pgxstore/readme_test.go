package pgxstore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/pgxstore"
)

// service is that of the README.
func service(ctx context.Context, pool *pgxpool.Pool, mux *http.ServeMux) error {
	if err := pgxstore.Migrate(ctx, pool); err != nil { // creates the tables that are missing
		return err
	}
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})

	idempotent := oncehttp.Middleware(engine, oncehttp.Config{Principal: tenant})
	mux.Handle("POST /refunds", idempotent(http.HandlerFunc(createRefund)))

	mux.Handle("POST /batch", batchOf(engine, oncehttp.Config{Principal: tenant}))
	return nil
}

func createRefund(w http.ResponseWriter, r *http.Request) {
	tx := oncehttp.Tx[pgx.Tx](r.Context()) // an ordinary pgx transaction
	_, err := tx.Exec(r.Context(), "insert into refund (charge) values ($1)", r.FormValue("charge"))
	if err != nil {
		oncehttp.Fail(w, r, err) // rolls back; after a deadlock the handler runs again, after another error the client gets 500
		return
	}
	w.WriteHeader(http.StatusCreated) // the transaction commits after the handler returns, before the response is sent
}

func batchOf(engine *once.Engine[pgx.Tx], cfg oncehttp.Config) http.Handler {
	return oncehttp.BatchHandler(engine, cfg, func(w http.ResponseWriter, r *http.Request, b *once.Batch) {
		id := once.NewKey() // nothing has to be read for it
		b.Exec("insert into refund (id, charge) values ($1, $2)", id, r.FormValue("charge"))
		w.Header().Set("Location", "/refunds/"+id)
		w.WriteHeader(http.StatusCreated)
	})
}

type Charge struct {
	ID     string
	Amount int
}

func place(ctx context.Context, engine *once.Engine[pgx.Tx], op once.Operation, c Charge) (once.Result[Charge], error) {
	charge, err := once.DoBatch(ctx, engine, op, func(b *once.Batch) (Charge, error) {
		b.Exec("insert into charge (id, amount) values ($1, $2)", c.ID, c.Amount)
		b.ExecRows(1, "update account set balance = balance - $2 where id = $1", 7, c.Amount)
		return c, nil
	})
	return charge, err
}

// tenant is what authentication has found out.
func tenant(*http.Request) string { return "acme" }

// TestReadmeCodeWorks: what the first page shows works, and does so once.
func TestReadmeCodeWorks(t *testing.T) {
	ctx := t.Context()
	pool := openPool(t)
	if _, err := pool.Exec(ctx, "create table refund (id text, charge text not null check (charge <> ''))"); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	if err := service(ctx, pool, mux); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/refunds", "/batch"} {
		var location string
		for _, c := range []struct {
			charge string
			status int
			says   string
		}{{"", 500, ""}, {"ch_1", 201, "stored"}, {"ch_1", 201, "replayed"}} {
			r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(url.Values{"charge": {c.charge}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Idempotency-Key", "k")
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if w.Code != c.status || w.Header().Get("Idempotency-Status") != c.says || c.says == "replayed" && w.Header().Get("Location") != location {
				t.Errorf("%s of %q: %d %v", target, c.charge, w.Code, w.Header())
			}
			location = w.Header().Get("Location")
		}
	}
	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for range 2 {
		if c, err := place(ctx, engine, once.Operation{Scope: "acme charges", Key: "k"}, Charge{"ch_2", 1}); err != nil || c.Value.ID != "ch_2" {
			t.Error(c, err)
		}
	}
	if n := count(t, pool, "select count(*) from refund"); n != 2 {
		t.Errorf("%d refunds", n)
	}
	if n := count(t, pool, "select count(*) from charge where id = 'ch_2'"); n != 1 {
		t.Errorf("%d charges", n)
	}
}
