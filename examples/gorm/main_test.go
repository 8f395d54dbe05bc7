package main

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncelib/once/internal/duplicates"
	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func serve(t *testing.T) (url string, count func() int) {
	t.Helper()
	dsn := testenv.NewDatabase(t)
	handler, err := newServer(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return server.URL, func() (n int) {
		if err := db.QueryRowContext(context.Background(), "select count(*) from refunds").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
}

func TestOneRefund(t *testing.T) {
	url, count := serve(t)
	if got := duplicates.Post(t, url+"/refunds", "application/json", `{"charge":"ch_1","amount":1000}`); got.Status != http.StatusCreated {
		t.Errorf("%+v", got)
	}
	if n := count(); n != 1 {
		t.Errorf("%d refunds", n)
	}
}
