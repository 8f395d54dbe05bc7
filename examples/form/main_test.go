package main

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

var hidden = regexp.MustCompile(`name="once" value="([^"]+)"`)

// Five impatient clicks on one form are one order, and every click leads to it.
func TestImpatience(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "orders.db")
	handler, err := newServer(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for form, want := range []string{"/?ordered=1", "/?ordered=2"} {
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		key := hidden.FindSubmatch(page)
		if err != nil || key == nil {
			t.Fatalf("%s, %v", page, err)
		}
		var clicks sync.WaitGroup
		for range 5 {
			clicks.Go(func() {
				resp, err := client.PostForm(server.URL+"/orders", url.Values{"once": {string(key[1])}, "book": {"Emma"}})
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || to != want {
					t.Errorf("form %d leads to %d %s", form, resp.StatusCode, to)
				}
			})
		}
		clicks.Wait()
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(context.Background(), "select count(*) from book_order").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d orders, %v", n, err)
	}
}
