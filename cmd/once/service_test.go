package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// asService as the first argument makes the test binary a service for charges: its commits, its database, its port.
const asService = "test-service"

// charges keeps its keys by hand, rightly but for when it commits.
type charges struct {
	db      *sql.DB
	commits string        // one, three, again, first, apart
	work    time.Duration // before the last commit
}

const chargesSchema = `create table if not exists taken (id varchar(300) primary key, hash varchar(64), answer text);
create table if not exists charge (id %s, amount int);`

func newCharges(commits, dsn string) (*charges, error) {
	driver, id, work := "sqlite", "integer primary key", 50*time.Millisecond
	if strings.HasPrefix(dsn, "postgres") {
		driver, id, work = "pgx", "serial primary key", 0
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	if driver == "sqlite" {
		db.SetMaxOpenConns(1)
	}
	_, err = db.ExecContext(context.Background(), fmt.Sprintf(chargesSchema, id))
	return &charges{db, commits, work}, err
}

func problem(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":%d}`, status)
}

func (c *charges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		n := -1
		_ = c.db.QueryRowContext(r.Context(), "select count(*) from charge").Scan(&n) // -1 says it
		fmt.Fprintln(w, n)
		return
	}
	lines := r.Header.Values("Idempotency-Key")
	if len(lines) != 1 {
		problem(w, http.StatusBadRequest)
		return
	}
	key, isQuoted := strings.CutPrefix(lines[0], `"`)
	key, isClosed := strings.CutSuffix(key, `"`)
	if isQuoted != isClosed || key == "" || len(key) > 255 {
		problem(w, http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	var charge struct{ Amount int }
	if json.Unmarshal(body, &charge) != nil || charge.Amount == 0 {
		problem(w, http.StatusBadRequest)
		return
	}
	hash := fmt.Sprintf("%x", sha256.Sum256(body))
	status, answer, err := c.keep(context.WithoutCancel(r.Context()), fmt.Sprintf("%.16x %s", sha256.Sum256([]byte(r.Header.Get("Authorization"))), key), hash, charge.Amount)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		problem(w, http.StatusServiceUnavailable)
	case status != http.StatusCreated:
		problem(w, status)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}
}

// connection is a database, or a transaction.
type connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (c *charges) keep(ctx context.Context, key, hash string, amount int) (status int, answer string, err error) {
	if c.commits != "one" && c.commits != "apart" {
		return c.execute(ctx, c.db, key, hash, amount)
	}
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, "", err
	}
	defer tx.Rollback()
	if status, answer, err = c.execute(ctx, tx, key, hash, amount); err != nil {
		return 0, "", err
	}
	if err := tx.Commit(); err != nil || c.commits == "one" || status != http.StatusCreated {
		return status, answer, err
	}
	_, err = c.db.ExecContext(ctx, "update taken set answer = $1 where id = $2", answer, key)
	return status, answer, err
}

func (c *charges) execute(ctx context.Context, on connection, key, hash string, amount int) (status int, answer string, err error) {
	stored := ""
	if c.commits == "first" {
		stored = `{"id":"` + hash[:8] + key[:4] + strconv.FormatInt(time.Now().UnixNano(), 36) + `"}`
	}
	result, err := on.ExecContext(ctx, "insert into taken (id, hash, answer) values ($1, $2, $3) on conflict do nothing", key, hash, stored)
	if err != nil {
		return 0, "", err
	}
	if n, _ := result.RowsAffected(); n == 0 {
		var other string
		if err := on.QueryRowContext(ctx, "select hash, answer from taken where id = $1", key).Scan(&other, &answer); err != nil {
			return 0, "", err
		}
		switch {
		case other != hash:
			return http.StatusUnprocessableEntity, "", nil
		case answer != "":
			return http.StatusCreated, answer, nil
		case c.commits == "apart":
			return http.StatusAccepted, "", nil
		case c.commits != "again":
			return http.StatusConflict, "", nil
		}
	}
	if c.commits == "first" {
		<-time.After(c.work)
	}
	id := 0
	if err := on.QueryRowContext(ctx, "insert into charge (amount) values ($1) returning id", amount).Scan(&id); err != nil || c.commits == "first" {
		return http.StatusCreated, stored, err
	}
	<-time.After(c.work)
	answer = fmt.Sprintf(`{"id":%d}`, id)
	if c.commits == "apart" {
		return http.StatusCreated, answer, nil
	}
	_, err = on.ExecContext(ctx, "update taken set answer = $1 where id = $2", answer, key)
	return http.StatusCreated, answer, err
}

// redis stands in for a Redis server: SET with NX and PX, GET and INCR.
type redis struct {
	mu     sync.Mutex
	values map[string]string
	ends   map[string]time.Time
}

func startRedis(tb testing.TB) (*redis, string) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	r := &redis{values: map[string]string{}, ends: map[string]time.Time{}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return r, port
}

func (r *redis) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		n, _ := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*"))
		var words []string
		for range n {
			lines.Scan() // its length
			lines.Scan()
			words = append(words, lines.Text())
		}
		if _, err := io.WriteString(conn, r.do(words)); err != nil {
			return
		}
	}
}

func (r *redis) do(words []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := words[1]
	if end, ok := r.ends[key]; ok && time.Now().After(end) {
		delete(r.values, key)
		delete(r.ends, key)
	}
	old, isThere := r.values[key]
	switch {
	case words[0] == "INCR":
		n, _ := strconv.Atoi(old)
		r.values[key] = strconv.Itoa(n + 1)
		return ":" + r.values[key] + "\r\n"
	case words[0] == "GET" && isThere:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(old), old)
	case words[0] == "GET", isThere && slices.Contains(words, "NX"):
		return "$-1\r\n"
	}
	r.values[key] = words[2]
	delete(r.ends, key)
	if ms, err := strconv.Atoi(words[len(words)-1]); err == nil {
		r.ends[key] = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	return "+OK\r\n"
}

// effects is a URL that answers with the number of charges.
func (r *redis) effects(tb testing.TB) string {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintln(w, "0"+r.values["charges"])
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

var errNoService = errors.New("test-service COMMITS DATABASE PORT")

func runService(args []string) {
	err := errNoService
	if len(args) == 3 {
		var service *charges
		if service, err = newCharges(args[0], args[1]); err == nil {
			server := &http.Server{Addr: "127.0.0.1:" + args[2], Handler: service, ReadHeaderTimeout: time.Minute}
			err = server.ListenAndServe()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
