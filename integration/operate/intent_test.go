package operate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
)

// intentJournals runs a test on every journal there is: they keep the same promises.
func intentJournals(t *testing.T, test func(t *testing.T, j keptJournal)) {
	t.Helper()
	on(t, func(t *testing.T, g *testDB) { test(t, g.journal(t)) })
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		f, err := journal.Open(filepath.Join(t.TempDir(), "intents"), journal.Config{})
		must(t, err)
		defer func() { _ = f.Close() }()
		test(t, f)
	})
}

type keptJournal interface {
	journal.Journal
	Resolve(ctx context.Context, id string) error
}

func (g *testDB) journal(t *testing.T) *journal.Table {
	t.Helper()
	j, err := journal.OpenTable(g.plane, journal.Config{})
	must(t, err)
	return j
}

func intentOf(key string) journal.Intent {
	return journal.Intent{
		Key: key, Method: http.MethodPost, URL: "http://ada:secret@api.example/refunds", Body: []byte("body\x00\xff" + key),
		Header: http.Header{"Content-Type": {"text/plain"}, "Authorization": {"hidden"}},
	}
}

func openKeys(t *testing.T, j journal.Journal) (keys []string) {
	t.Helper()
	list, err := j.List(t.Context())
	must(t, err)
	for _, in := range list {
		keys = append(keys, in.Key)
	}
	return keys
}

// TestIntentsAreKept: whatever its key and body, an intent is there until its outcome is
// known, as it was.
func TestIntentsAreKept(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	intentJournals(t, func(t *testing.T, j keptJournal) {
		for i, text := range nasty {
			in := intentOf(text)
			in.Since = time.UnixMilli(int64(1000 + i))
			got, err := j.Begin(t.Context(), in)
			must(t, err)
			if got.Again || got.ID == "" {
				t.Errorf("%q: %+v", text, got)
			}
		}
		list, err := j.List(t.Context())
		must(t, err)
		if len(list) != len(nasty) {
			t.Fatalf("%d of %d", len(list), len(nasty))
		}
		for i, in := range list {
			if in.Key != nasty[i] || string(in.Body) != "body\x00\xff"+nasty[i] || in.URL != "http://api.example/refunds" || in.Since.UnixMilli() != int64(1000+i) ||
				in.Header.Get("Content-Type") != "text/plain" || len(in.Header) != 1 || in.Held != "" || !in.Expires.IsZero() {
				t.Errorf("%q: %+v", nasty[i], in)
			}
		}
		for i, o := range []journal.Proof{journal.ProofAnswered, journal.ProofUntouched, journal.ProofNone, journal.ProofExpired} {
			in := list[i]
			in.Expires = time.UnixMilli(5000)
			must(t, j.End(t.Context(), in, o))
		}
		rest, err := j.List(t.Context())
		must(t, err)
		if len(rest) != len(nasty)-2 || rest[0].Expires.UnixMilli() != 5000 || rest[0].Held != "" || rest[1].Held == "" {
			t.Errorf("%+v", rest[:2])
		}
		again, err := j.Begin(t.Context(), intentOf(nasty[4]))
		must(t, err)
		if !again.Again || again.ID != list[4].ID || again.Since.UnixMilli() != 1004 {
			t.Errorf("%+v", again)
		}
		must(t, j.End(t.Context(), list[4], journal.ProofUntouched)) // the other one may have had an effect
		other := intentOf(nasty[4])
		other.Body = nil
		if _, err := j.Begin(t.Context(), other); !errors.Is(err, journal.ErrMismatch) {
			t.Error(err)
		}
		must(t, j.Resolve(t.Context(), rest[1].ID))
		if err := j.Resolve(t.Context(), rest[1].ID); err == nil {
			t.Error("resolved twice")
		}
		if keys := openKeys(t, j); len(keys) != len(nasty)-3 || keys[0] != nasty[2] || keys[1] != nasty[4] {
			t.Errorf("%q", keys)
		}
	})
}

// TestIntentOfMany: of callers that begin one intent at the same time, one is the first.
func TestIntentOfMany(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	intentJournals(t, func(t *testing.T, j keptJournal) {
		var mu sync.Mutex
		var all sync.WaitGroup
		first, ids := 0, map[string]bool{}
		for range 12 {
			all.Go(func() {
				in, err := j.Begin(context.Background(), intentOf("k"))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if ids[in.ID] = true; !in.Again {
					first++
				}
			})
		}
		all.Wait()
		if first != 1 || len(ids) != 1 {
			t.Errorf("%d were the first, ids %v", first, ids)
		}
	})
}

// service dedupes by key, and counts its effects.
func service(t *testing.T) (url string, effects func() []string) {
	t.Helper()
	var mu sync.Mutex
	var made []string
	engine := once.New(memstore.New(), once.Config{})
	server := httptest.NewServer(oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		made = append(made, string(body))
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(made)
	}
}

// TestIntentInATransaction: an intent is there if what has made it necessary is, and then
// it takes effect once.
func TestIntentInATransaction(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	type runner func(ctx context.Context, g *testDB, commit bool, query string, args []any) error
	bySQL := func(ctx context.Context, g *testDB, commit bool, query string, args []any) error {
		tx, err := g.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, query, args...); err != nil || !commit {
			return err
		}
		return tx.Commit()
	}
	byPgx := func(ctx context.Context, g *testDB, commit bool, query string, args []any) error {
		conn, err := pgx.Connect(ctx, g.DSN)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := tx.Exec(ctx, query, args...); err != nil || !commit {
			return err
		}
		return tx.Commit(ctx)
	}
	test := func(t *testing.T, g *testDB, run runner) {
		j := g.journal(t)
		url, effects := service(t)
		for i, commit := range []bool{true, false, true} {
			in := intentOf(fmt.Sprint("k", i))
			in.URL, in.Body = url, []byte(in.Key)
			for range 2 { // planned twice is planned once
				query, args, err := j.Insert(in)
				must(t, err)
				must(t, run(t.Context(), g, commit, query, args))
			}
		}
		client := &http.Client{Transport: &retryhttp.Transport{Journal: j, Policy: retry.Policy{Attempts: 1}, Base: unreachable{}}}
		req, err := http.NewRequestWithContext(retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k0"}), http.MethodPost, url, strings.NewReader("k0"))
		must(t, err)
		req.Header.Set("Content-Type", "text/plain")
		if _, err := client.Do(req); err == nil || len(openKeys(t, j)) != 2 {
			t.Errorf("sent by the caller, without a server: %v, open: %v", err, openKeys(t, j))
		}
		if r, err := journal.Resume(t.Context(), j, client, journal.Options{}); err == nil || r.Open != 2 {
			t.Errorf("without a server: %+v, %v", r, err)
		}
		client = &http.Client{Transport: &retryhttp.Transport{Journal: j}}
		r, err := journal.Resume(t.Context(), j, client, journal.Options{Parallel: 1})
		if got := effects(); err != nil || r.Closed != 2 || !slices.Equal(got, []string{"k0", "k2"}) {
			t.Errorf("%+v, %v, effects %v", r, err, got)
		}
		if keys := openKeys(t, j); len(keys) > 0 {
			t.Errorf("open: %v", keys)
		}
	}
	on(t, func(t *testing.T, g *testDB) {
		run := bySQL
		if g.Kind == harness.Pgx {
			run = byPgx
		}
		test(t, g, run)
	})
}

// TestIntentOfADeadClient: what one client has left open another one resumes, with the
// same key and without a second effect; without the database nothing is sent.
func TestIntentOfADeadClient(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onSQL(t, func(t *testing.T, g *testDB) {
		url, effects := service(t)
		lossy := &lossy{}
		dead := &http.Client{Transport: &retryhttp.Transport{Journal: g.journal(t), Base: lossy, Policy: retry.Policy{Attempts: 1}}}
		req, err := http.NewRequestWithContext(retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k"}), http.MethodPost, url, strings.NewReader("body"))
		must(t, err)
		if _, err := dead.Do(req); err == nil || lossy.n != 1 {
			t.Fatal("vacuous: the answer was not lost")
		}
		j := g.journal(t)
		r, err := journal.Resume(t.Context(), j, &http.Client{Transport: &retryhttp.Transport{Journal: j}}, journal.Options{
			Answer: func(_ journal.Intent, resp *http.Response) error {
				if resp.Header.Get("Idempotent-Replayed") != "true" {
					return errors.New("not a replay")
				}
				return nil
			},
		})
		if got := effects(); err != nil || r.Closed != 1 || len(got) != 1 {
			t.Errorf("%+v, %v, effects %v", r, err, got)
		}
		_ = g.db.Close()
		req.Body, err = req.GetBody()
		must(t, err)
		if _, err := dead.Do(req); !contains(err, "was not sent") || !contains(err, "Try: ") || lossy.n != 1 {
			t.Errorf("%v, sent %d times", err, lossy.n)
		}
	})
}

// unreachable is a server that is down.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
}

// lossy loses every answer.
type lossy struct{ n int }

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	l.n++
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	return nil, errors.New("the answer was lost")
}
