package main

import (
	"context"
	"database/sql"
	"net"
	"path/filepath"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/oncelib/once/internal/duplicates"
)

func TestOneRefund(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "refunds.db")
	app, err := newServer(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	defer l.Close() // app.Shutdown of fasthttp 1.69 races with the contexts of requests that have ended

	got := duplicates.Post(t, "http://"+l.Addr().String()+"/refunds", "application/json", `{"charge":"ch_1","amount":1000}`)
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
