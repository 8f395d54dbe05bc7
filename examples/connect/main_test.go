package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
)

// lossy loses the first answer, when its server has done all that it does.
type lossy struct{ lost atomic.Bool }

func (l *lossy) Do(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(req)
	if err == nil && l.lost.CompareAndSwap(false, true) {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, errors.New("the answer was lost")
	}
	return resp, err
}

func TestOneRefund(t *testing.T) {
	ctx, file := context.Background(), "file:"+filepath.Join(t.TempDir(), "refunds.db")
	handler, err := newServer(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	network := new(lossy)
	client := newClient(network, server.URL)

	key := once.NewKey()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if r, err := refund(ctx, client, key, "ch_1", 1000); err != nil || r.GetId() != 1 {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	all.Wait()
	if !network.lost.Load() {
		t.Error("no answer was lost")
	}
	if _, err := refund(ctx, client, key, "ch_1", 1001); once.CodeOf(err) != once.CodeMismatch {
		t.Error(err)
	}

	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(ctx, "select count(*) from refund").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d refunds, %v", n, err)
	}
}
