package gateway

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/integration/harness"
)

// Fates of the first request with a key, at the service.
const (
	killedBefore   = "killed before its commit"
	killedAfter    = "killed after its commit"
	killedInAnswer = "killed in its answer"
	failsAfter     = "500 after its commit"
	proxied503     = "503 of a proxy after its commit"
	slow           = "slow past the timeout, then commits"
	tooLate        = "slow past the tombstone, then commits"
	streams        = "commits, and then streams events"
)

const fateHeader = "X-Fate"

// serving is a service that knows nothing of keys, but writes a receipt in its transaction, unless it is mute.
type serving struct {
	Dir  string
	Mute bool
}

func (s serving) socket() string { return filepath.Join(s.Dir, "socket") }

func (s serving) open() (*sql.DB, error) {
	return harness.SQLiteFile(harness.SQLite, filepath.Join(s.Dir, "service.db")).DB()
}

func (s serving) run(ctx context.Context) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	_ = os.Remove(s.socket())
	l, err := new(net.ListenConfig).Listen(ctx, "unix", s.socket())
	if err != nil {
		return err
	}
	ctx = harness.UntilDrained(ctx)
	server := &http.Server{Handler: handler{db, s.Mute}, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	fmt.Println("listens")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return db.Close()
}

type handler struct {
	db   *sql.DB
	mute bool
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	key, operation, fate := r.Header.Get("Idempotency-Key"), r.Header.Get(gateway.OperationHeader), h.fate(r)
	if fate == slow || fate == tooLate {
		<-r.Context().Done()
	}
	for fate == tooLate {
		if rec, found, err := (receipts{h.db}).Look(context.Background(), operation); err == nil && found && rec.Tombstone {
			break
		}
	}
	if _, err := h.db.ExecContext(context.Background(), "insert into arrival (operation, key) values (?, ?)", operation, key); err != nil {
		return
	}
	body := "paid " + key
	switch err := h.pay(r, key, operation, body, func() {
		if fate == killedBefore {
			harness.Strike(syscall.SIGKILL)
		}
	}); {
	case err != nil: // its own receipt is in the way, or a tombstone
		w.WriteHeader(http.StatusConflict)
		return
	case fate == killedAfter:
		harness.Strike(syscall.SIGKILL)
	case fate == failsAfter:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case fate == proxied503:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if fate == streams {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(http.StatusCreated)
	if fate == killedInAnswer {
		_, _ = io.WriteString(w, body[:2])
		_ = http.NewResponseController(w).Flush()
		harness.Strike(syscall.SIGKILL)
	}
	_, _ = io.WriteString(w, body)
}

// fate returns what is to happen to the first request with a key.
func (h handler) fate(r *http.Request) string {
	res, err := h.db.ExecContext(context.Background(), "insert into seen (key) values (?) on conflict do nothing", r.Header.Get("Idempotency-Key"))
	if err != nil {
		return ""
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return ""
	}
	return r.Header.Get(fateHeader)
}

// pay is the transaction of the service. It does not end with the request: a service rarely looks whether its client is there.
func (h handler) pay(r *http.Request, key, operation, body string, beforeCommit func()) error {
	ctx := context.WithoutCancel(r.Context())
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "insert into effect (key) values (?)", key); err != nil {
		return err
	}
	if h.mute {
		beforeCommit()
		return tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, "insert into receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)", operation, r.Header.Get(gateway.FingerprintHeader), body); err != nil {
		return err
	}
	beforeCommit()
	return tx.Commit()
}

// receipts are read in the database of the service.
type receipts struct{ db *sql.DB }

func (s receipts) Look(ctx context.Context, operation string) (r gateway.Receipt, found bool, err error) {
	var fingerprint sql.NullString
	var body []byte
	err = s.db.QueryRowContext(ctx, "select fingerprint, status, body from receipt where operation = ?", operation).Scan(&fingerprint, &r.Status, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return r, false, nil
	}
	r.Operation, r.Fingerprint, r.Body, r.Tombstone = operation, fingerprint.String, body, r.Status == 0
	return r, err == nil, err
}

func (s receipts) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	if _, err := s.db.ExecContext(ctx, "insert into receipt (operation, status) values (?, 0) on conflict do nothing", operation); err != nil {
		return gateway.Receipt{}, err
	}
	r, found, err := s.Look(ctx, operation)
	if err == nil && !found {
		err = errors.New("the tombstone is missing")
	}
	return r, err
}

// service is the service as a test sees it: it is started again whenever it has died, and its table is the witness.
type service struct {
	serving

	db *sql.DB
}

func newService(t *testing.T) *service { t.Helper(); return startService(t, false) }

func startService(t *testing.T, mute bool) *service {
	t.Helper()
	dir, err := os.MkdirTemp("", "once-gw") //nolint:usetesting // the path of a socket is short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &service{serving: serving{dir, mute}}
	s.db, err = s.open()
	must(t, err)
	t.Cleanup(func() { _ = s.db.Close() })
	for _, ddl := range []string{
		"create table arrival (operation text not null, key text not null)", // each forward
		"create table effect (key text not null)",                           // no unique key: what runs twice shows
		"create table receipt (operation text primary key, fingerprint text, status integer not null, body blob)",
		"create table seen (key text primary key)",
	} {
		_, err := s.db.ExecContext(t.Context(), ddl)
		must(t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		for {
			c := harness.Start(t, plan{Service: &s.serving})
			select {
			case <-c.Ended():
			case <-ctx.Done():
				c.Kill()
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		over.Wait()
	})
	return s
}

func (s *service) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	must(tb, s.db.QueryRowContext(tb.Context(), query, args...).Scan(&n))
	return n
}

func (s *service) effects(tb testing.TB, key string) int {
	tb.Helper()
	return s.count(tb, "select count(*) from effect where key = ?", key)
}

// arrivals is how many requests with a key have reached the service.
func (s *service) arrivals(tb testing.TB, key string) int {
	tb.Helper()
	return s.count(tb, "select count(*) from arrival where key = ?", key)
}

// forwards is how often the operation was forwarded that was forwarded most often.
func (s *service) forwards(tb testing.TB) int {
	tb.Helper()
	return s.count(tb, "select coalesce(max(n), 0) from (select count(*) as n from arrival group by operation)")
}

func (s *service) tombstones(tb testing.TB) int {
	tb.Helper()
	return s.count(tb, "select count(*) from receipt where status = 0")
}
