package gateway

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
)

// ttl of the leases of gateways.
const ttl = 200 * time.Millisecond

// gatewaying is a gateway in a process of its own. It serves one request, and kills or stops itself at a point; or it listens, and does so each time
// that it has passed so many points.
type gatewaying struct {
	Serving  serving
	Database harness.Database
	Policy   gateway.Policy // "": without a store
	Key      string
	Fate     string
	At       int64 // 0: at none
	Signal   syscall.Signal
	Socket   string // "": it serves one request
}

// run prints how many points there were, and the answer.
func (p *gatewaying) run(ctx context.Context) error {
	var points atomic.Int64
	var begun atomic.Bool
	at := func(string) {
		if !begun.Load() {
			return
		}
		if n := points.Add(1); n == p.At || p.Socket != "" && n%p.At == 0 {
			settling.Lock()
			defer settling.Unlock()
			harness.Strike(p.Signal)
		}
	}
	db, err := p.Serving.open()
	if err != nil {
		return err
	}
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	serve := func(ops store.Operations) error {
		if ops != nil {
			if _, err := ops.Read(ctx, store.ID{Scope: "none", Key: "none"}); err != nil { // the login is no point
				return err
			}
		}
		begun.Store(true)
		g, err := newGateway(p.Serving, db, ops, p.Policy, at)
		if err != nil {
			return err
		}
		if p.Socket != "" {
			return p.listen(ctx, g)
		}
		a := ask(g, p.Key, p.Fate)
		fmt.Println("points", points.Load())
		fmt.Println("answer", a)
		return nil
	}
	if p.Policy == "" {
		return serve(nil)
	}
	return p.Database.Use(ctx,
		func(s harness.Store[pgx.Tx]) error { return serve(pointed(s, at)) },
		func(s harness.Store[*sql.Tx]) error { return serve(pointed(s, at)) })
}

func (p *gatewaying) listen(ctx context.Context, g http.Handler) error {
	_ = os.Remove(p.Socket)
	l, err := new(net.ListenConfig).Listen(ctx, "unix", p.Socket)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	go func() {
		<-harness.UntilDrained(ctx).Done()
		_ = server.Close()
	}()
	fmt.Println("listens")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func pointed[TX any](s harness.Store[TX], at func(string)) store.Operations {
	return &harness.LeasePoints[TX]{Points: harness.Points[TX]{Store: unlocked[TX]{s}, At: at}}
}

// unlocked is a store that writes while nothing strikes: a gateway that is stopped with a lock on a row would stop the other one with it.
type unlocked[TX any] struct{ harness.Store[TX] }

func (u unlocked[TX]) Unwrap() any { return u.Store }

func (u unlocked[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	settling.RLock()
	defer settling.RUnlock()
	return u.Store.Swap(ctx, c)
}

// newGateway returns a gateway in front of a service. It has no store if ops is nil.
func newGateway(s serving, db *sql.DB, ops store.Operations, policy gateway.Policy, at func(string)) (*gateway.Gateway, error) {
	cfg := gateway.Config{
		Name: "service", Upstream: &url.URL{Scheme: "http", Host: "service"}, Principal: oncehttp.SharedPrincipal(),
		Receipts: unstruck{receipts{db}}, Engine: once.Config{Observer: once.Discard},
		Routes: []gateway.Route{{Pattern: "POST /pay", OnUnknown: policy, Timeout: 300 * time.Millisecond}},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			at("dial")
			conn, err := new(net.Dialer).DialContext(ctx, "unix", s.socket())
			if err != nil {
				return nil, err
			}
			return pointConn{conn, at}, nil
		},
	}
	if ops != nil {
		cfg.Store = lease.New(ops, lease.Config{TTL: ttl, AskEvery: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	} else if policy == gateway.PolicyStop {
		cfg.Routes[0].OnUnknown = ""
	}
	return gateway.New(cfg)
}

// settling is held while a gateway writes to a database. A gateway that is stopped with a lock on the file of the service would stop the service with it.
var settling sync.RWMutex

// unstruck is receipts that are asked while nothing strikes.
type unstruck struct{ receipts }

func (u unstruck) Look(ctx context.Context, operation string) (gateway.Receipt, bool, error) {
	settling.RLock()
	defer settling.RUnlock()
	return u.receipts.Look(ctx, operation)
}

func (u unstruck) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	settling.RLock()
	defer settling.RUnlock()
	return u.receipts.Settle(ctx, operation)
}

// pointConn passes a point around each call of its socket.
type pointConn struct {
	net.Conn

	at func(string)
}

func (c pointConn) Write(p []byte) (int, error) {
	c.at("write")
	defer c.at("written")
	return c.Conn.Write(p)
}

func (c pointConn) Read(p []byte) (int, error) {
	defer c.at("read")
	return c.Conn.Read(p)
}

// answer is what a client is told.
type answer struct {
	Status int
	Body   string // or the code of a problem
	Again  bool   // the client is to come again
	Cut    bool
	Stored bool // it is replayed
}

func (a answer) String() string {
	text, err := json.Marshal(a)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (a answer) isPaid(key string) bool {
	return a.Status == http.StatusCreated && a.Body == "paid "+key && !a.Cut
}

// ask sends a request with a key, whose fate at the service is that.
func ask(g http.Handler, key, fate string) (a answer) {
	r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("100"))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set(fateHeader, fate)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
				panic(p)
			} else if p != nil {
				a.Cut = true
			}
		}()
		g.ServeHTTP(w, r)
	}()
	return told(w.Code, w.Header(), w.Body.Bytes(), a.Cut)
}

func told(status int, header http.Header, body []byte, cut bool) answer {
	a := answer{Status: status, Body: string(body), Cut: cut, Stored: header.Get("Idempotent-Replayed") != ""}
	var p struct {
		Code      string `json:"code"`
		Retryable bool   `json:"retryable"`
	}
	if bytes.HasPrefix(body, []byte("{")) && json.Unmarshal(body, &p) == nil {
		a.Body, a.Again = p.Code, p.Retryable
	}
	return a
}

// final sends the request of a client that comes again for as long as it is told to. A cut answer, and one of 409 without a body or 5xx of
// the service, is one to come again for.
func final(tb testing.TB, g http.Handler, key, fate string) (a answer) {
	tb.Helper()
	return finally(tb, key, func() answer { return ask(g, key, fate) })
}

func finally(tb testing.TB, key string, ask func() answer) (a answer) {
	tb.Helper()
	harness.Until(tb, func() error {
		a = ask()
		if a.Again || a.Cut || !a.Stored && (a.Status >= 500 || a.Status == http.StatusConflict && a.Body == "") {
			return fmt.Errorf("key %s has no final answer: %v", key, a)
		}
		return nil
	})
	return a
}
