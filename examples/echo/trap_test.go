package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

// An error that a handler returns rolls back what it has written. With echo's own adapter
// alone it does not: echo answers it when all is committed.
func TestErrorsRollBack(t *testing.T) {
	for _, test := range []struct {
		name       string
		err        error
		middleware []echo.MiddlewareFunc // inside of ours
		status     int
		rows       int
	}{
		{"database", errors.New("down"), []echo.MiddlewareFunc{answer}, 500, 0},
		{"not now", echo.NewHTTPError(http.StatusServiceUnavailable, "not now"), []echo.MiddlewareFunc{answer}, 503, 0},
		{"never", echo.ErrNotFound, []echo.MiddlewareFunc{answer}, 404, 0},
		{"the trap", errors.New("down"), nil, 200, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "refunds.db")+pragmas)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s, err := prepare(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			engine := once.New(s, once.Config{})
			protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: account})
			router := echo.New()
			router.POST("/refunds", func(c *echo.Context) error {
				ctx := c.Request().Context()
				_, err := oncehttp.Tx[*sql.Tx](ctx).ExecContext(ctx, "insert into refund (charge, amount) values ('ch_1', 1)")
				return errors.Join(err, test.err)
			}, append([]echo.MiddlewareFunc{echo.WrapMiddleware(protect)}, test.middleware...)...)
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/refunds", http.NoBody)
			r.Header.Set("Idempotency-Key", "k")
			r.Header.Set("X-Tenant", "acme")
			router.ServeHTTP(w, r)
			var rows int
			if err := db.QueryRowContext(context.Background(), "select count(*) from refund").Scan(&rows); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.status || rows != test.rows {
				t.Errorf("%d %s, %d rows", w.Code, w.Body, rows)
			}
		})
	}
}
