package limit_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// Handlers with idempotency keys have the limiter as their gate, all others around them.
func Example() {
	limiter := limit.New(limit.Config{Limit: 20})
	engine := once.New(memstore.New(), once.Config{})

	refunds := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: limiter})

	mux := http.NewServeMux()
	mux.Handle("POST /refunds", protect(refunds))
	mux.Handle("GET /reports", limiter.Middleware(http.NotFoundHandler()))

	r := httptest.NewRequest(http.MethodPost, "/refunds", http.NoBody)
	r.Header.Set("Idempotency-Key", "k1")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, limiter.State().Admitted)
	// Output: 201 1
}

// A pool of connections tells how much new work is let in. Replays are answered also where none is.
func ExampleNewPool() {
	db := sql.OpenDB(connector{})
	db.SetMaxOpenConns(8)
	defer db.Close()

	pool := limit.NewPool(limit.PoolConfig{
		Limit:   64,
		Acquire: 50 * time.Millisecond,
		Stat:    func() (inUse, most int) { s := db.Stats(); return s.InUse, s.MaxOpenConnections },
	})
	engine := once.New(memstore.New(), once.Config{Observer: once.Observers(pool, once.Warnings)})
	limiter := limit.New(limit.Config{Capacity: pool})
	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: limiter})

	w := httptest.NewRecorder()
	protect(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Code, "with", pool.Limit(), "places")
	// Output: 404 with 8 places
}

// connector is the driver of a database that the example does not call.
type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return nil, driver.ErrBadConn }
func (connector) Driver() driver.Driver                        { return nil }
