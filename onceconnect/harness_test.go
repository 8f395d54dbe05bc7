package onceconnect_test

import (
	"context"
	"database/sql"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"connectrpc.com/connect"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
	"github.com/oncelib/once/store/sqlstore"
)

// service makes refunds in a SQLite file, behind a real server.
type service struct {
	testing.TB

	db     *sql.DB
	server *httptest.Server

	mu    sync.Mutex
	runs  int
	begun []once.Event  // with which calls of the engine begin
	seen  []http.Header // of each call that has arrived
	conns map[net.Conn]bool

	before func(ctx context.Context, run int) error             // in the handler, after the write
	undo   func(ctx context.Context) (*refundsv1.Refund, error) // in place of GetRefund
	around func(call int, handle func() (connect.AnyResponse, error)) (connect.AnyResponse, error)
}

func (s *service) CreateRefund(ctx context.Context, req *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	tx := onceconnect.Tx[*sql.Tx](ctx)
	r := &refundsv1.Refund{Charge: req.GetCharge(), Amount: req.GetAmount()}
	err := tx.QueryRowContext(ctx, "insert into refund (charge, amount) values (?, ?) returning id", r.GetCharge(), r.GetAmount()).Scan(&r.Id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.runs++
	run := s.runs
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(ctx, run); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (s *service) GetRefund(ctx context.Context, req *refundsv1.GetRefundRequest) (*refundsv1.Refund, error) {
	if s.undo != nil {
		return s.undo(ctx)
	}
	r := &refundsv1.Refund{Id: req.GetId()}
	err := s.db.QueryRowContext(ctx, "select charge, amount from refund where id = ?", r.GetId()).Scan(&r.Charge, &r.Amount)
	if err != nil {
		return nil, connect.NewError(connect.CodeNotFound, err)
	}
	return r, nil
}

// start starts a server; change may be nil.
func start(tb testing.TB, cfg onceconnect.Config, change func(*service)) *service {
	tb.Helper()
	ctx := context.Background()
	s := &service{TB: tb, conns: map[net.Conn]bool{}}
	if change != nil {
		change(s)
	}
	var err error
	s.db, err = sqlstore.Open("sqlite", "file:"+filepath.Join(tb.TempDir(), "app.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	s.must(err)
	s.must(sqlstore.Migrate(ctx, s.db))
	_, err = s.db.ExecContext(ctx, "create table refund (id integer primary key, charge text, amount integer)")
	s.must(err)
	store, err := sqlstore.New(ctx, s.db, sqlstore.Config{})
	s.must(err)
	if cfg.Principal == nil {
		cfg.Principal = onceconnect.SharedPrincipal()
	}
	mux := http.NewServeMux()
	mux.Handle(refundsv1.NewRefundsHandler(s, connect.WithInterceptors(
		connect.UnaryInterceptorFunc(s.watch), onceconnect.NewInterceptor(once.New(store, once.Config{Observer: s}), cfg))))
	s.server = httptest.NewUnstartedServer(mux)
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns[c] = state != http.StateClosed
	}
	s.server.EnableHTTP2 = true
	s.server.StartTLS()
	tb.Cleanup(func() {
		s.server.Close()
		s.db.Close()
	})
	return s
}

// Observe implements [once.Observer].
func (s *service) Observe(context.Context, once.Event) {}

// TraceStart implements [once.Tracer].
func (s *service) TraceStart(ctx context.Context, e once.Event) (context.Context, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, e)
	return ctx, ""
}

func (s *service) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// watch is outside of the interceptor under test.
func (s *service) watch(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		s.mu.Lock()
		s.seen = append(s.seen, req.Header().Clone())
		call := len(s.seen)
		s.mu.Unlock()
		handle := func() (connect.AnyResponse, error) { return next(ctx, req) }
		if s.around != nil {
			return s.around(call, handle)
		}
		return handle()
	}
}

// cut breaks all connections.
func (s *service) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, open := range s.conns {
		if open {
			c.Close()
		}
	}
}

// protocols are those that a handler of Connect speaks.
var protocols = map[string]connect.ClientOption{
	"Connect": connect.WithClientOptions(), "gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
}

func (s *service) client(opts ...connect.ClientOption) refundsv1.RefundsClient {
	return refundsv1.NewRefundsClient(s.server.Client(), s.server.URL, opts...)
}

func (s *service) retrying(cfg onceconnect.ClientConfig, opts ...connect.ClientOption) refundsv1.RefundsClient {
	return s.client(append(opts, connect.WithInterceptors(onceconnect.NewClientInterceptor(cfg)))...)
}

// expect expects so many rows, and runs of the handler.
func (s *service) expect(refunds, runs int) {
	s.Helper()
	var n int
	s.must(s.db.QueryRowContext(context.Background(), "select count(*) from refund").Scan(&n))
	s.mu.Lock()
	defer s.mu.Unlock()
	if n != refunds || s.runs != runs {
		s.Errorf("%d refunds after %d runs, want %d and %d", n, s.runs, refunds, runs)
	}
}

// keys are those that calls have arrived with.
func (s *service) keys() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.seen {
		keys = append(keys, h.Get("Idempotency-Key"))
	}
	return keys
}

// with returns a context whose call carries these keys in its header.
func with(keys ...string) (context.Context, connect.CallInfo) {
	ctx, info := connect.NewClientContext(context.Background())
	for _, k := range keys {
		info.RequestHeader().Add("Idempotency-Key", k)
	}
	return ctx, info
}

var refund = &refundsv1.CreateRefundRequest{Charge: "ch_1", Amount: 1000}
