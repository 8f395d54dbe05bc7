package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
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

func TestLostAnswers(t *testing.T) {
	ctx, file := context.Background(), "file:"+filepath.Join(t.TempDir(), "refunds.db")
	s, err := open(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newServer(once.New(s, once.Config{})))
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

// TestOneRefund: whatever fails, breaks or dies, a refund is made once.
func TestOneRefund(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "refunds.db")
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			s, err := prepare(t.Context(), p.Open("sqlite", file+pragmas))
			if err != nil {
				t.Fatal(err)
			}
			return newServer(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}))
		},
		Request: func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/refunds.v1.Refunds/CreateRefund", strings.NewReader(`{"charge":"ch_1","amount":1000}`))
			r.Header.Set("Content-Type", "application/json")
			return r
		},
	})
}
