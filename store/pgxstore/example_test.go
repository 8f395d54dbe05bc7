package pgxstore_test

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/pgxstore"
)

// A service whose pool is warm before the first request, and is not drowned by the last one.
func ExampleStore_Warm() { //nolint:testableexamples // there is no server in this example
	start := func(ctx context.Context, db *pgxpool.Pool, refunds http.Handler) (http.Handler, error) {
		s := pgxstore.New(db, pgxstore.Config{})
		if err := s.Warm(ctx, 20); err != nil { // new connections are slow where they need TLS
			return nil, err
		}
		pool := limit.NewPool(limit.PoolConfig{
			Limit: 64,
			Stat:  func() (inUse, most int) { s := db.Stat(); return int(s.AcquiredConns()), int(s.MaxConns()) },
		})
		engine := once.New(s, once.Config{Observer: once.Observers(pool, once.Log(slog.Default()))})
		protect := oncehttp.Middleware(engine, oncehttp.Config{
			Principal: oncehttp.SharedPrincipal(),
			Gate:      limit.New(limit.Config{Capacity: pool}),
		})
		return protect(refunds), nil
	}
	_ = start
}
