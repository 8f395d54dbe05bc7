package main

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
)

var hidden = regexp.MustCompile(`name="once" value="([^"]+)"`)

// Five impatient clicks on one form are one order, and every click leads to it.
func TestFiveClicksAreOneOrder(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "orders.db")
	s, err := open(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newServer(once.New(s, once.Config{})))
	defer server.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
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

// TestOneOrder: whatever fails, breaks or dies, a book is ordered once. A header has the key in place of the hidden field.
func TestOneOrder(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "orders.db")
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			s, err := prepare(t.Context(), p.Open("sqlite", file+pragmas))
			if err != nil {
				t.Fatal(err)
			}
			return newServer(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}))
		},
		Request: func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("book=Emma"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.AddCookie(&http.Cookie{Name: "session", Value: "s1"})
			return r
		},
	})
}
