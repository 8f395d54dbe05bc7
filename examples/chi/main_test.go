package main

import (
	"context"
	"database/sql"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/oncelib/once/internal/duplicates"
)

func TestOneRefund(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "refunds.db")
	handler, err := newServer(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()

	got := duplicates.Post(t, server.URL+"/refunds", "application/json", `{"charge":"ch_1","amount":1000}`)
	if got.Status != 201 {
		t.Errorf("%+v", got)
	}

	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n, amount int
	if err := db.QueryRowContext(context.Background(), "select count(*), sum(amount) from refund").Scan(&n, &amount); err != nil || n != 1 || amount != 1000 {
		t.Errorf("%d refunds of %d in all, %v", n, amount, err)
	}
}
