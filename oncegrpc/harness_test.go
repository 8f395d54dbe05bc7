package oncegrpc_test

import (
	"context"
	"database/sql"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/store/sqlstore"
)

// service makes refunds in a SQLite file, behind a real server.
type service struct {
	refundsv1.UnimplementedRefundsServer
	testing.TB

	db   *sql.DB
	addr string

	mu    sync.Mutex
	runs  int
	begun []once.Event  // with which calls of the engine begin
	seen  []metadata.MD // of each call that has arrived
	conns []net.Conn

	before func(ctx context.Context, run int) error             // in the handler, after the write
	undo   func(ctx context.Context) (*refundsv1.Refund, error) // in place of GetRefund
	around func(ctx context.Context, call int, handle func() (any, error)) (any, error)
}

func (s *service) CreateRefund(ctx context.Context, req *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	tx := oncegrpc.Tx[*sql.Tx](ctx)
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
		return nil, status.Error(codes.NotFound, "no such refund")
	}
	return r, nil
}

// start starts a server; change may be nil.
func start(tb testing.TB, cfg oncegrpc.Config, change func(*service)) *service {
	tb.Helper()
	ctx := context.Background()
	s := &service{TB: tb}
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
		cfg.Principal = oncegrpc.SharedPrincipal()
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(s.watch, oncegrpc.UnaryServerInterceptor(once.New(store, once.Config{Observer: s}), cfg)))
	refundsv1.RegisterRefundsServer(server, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.addr = l.Addr().String()
	go func() { _ = server.Serve(&listener{l, s}) }()
	tb.Cleanup(func() {
		server.Stop()
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
func (s *service) watch(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	s.seen = append(s.seen, md)
	call := len(s.seen)
	s.mu.Unlock()
	handle := func() (any, error) { return next(ctx, req) }
	if s.around != nil {
		return s.around(ctx, call, handle)
	}
	return handle()
}

type listener struct {
	net.Listener

	s *service
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.s.mu.Lock()
		l.s.conns = append(l.s.conns, c)
		l.s.mu.Unlock()
	}
	return c, err
}

// cut breaks all connections.
func (s *service) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func (s *service) client(opts ...grpc.DialOption) refundsv1.RefundsClient {
	conn, err := grpc.NewClient(s.addr, append(opts, grpc.WithDisableRetry(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	s.must(err)
	s.Cleanup(func() { _ = conn.Close() })
	return refundsv1.NewRefundsClient(conn)
}

func (s *service) retrying(cfg oncegrpc.ClientConfig) refundsv1.RefundsClient {
	return s.client(grpc.WithUnaryInterceptor(oncegrpc.UnaryClientInterceptor(cfg)))
}

// refunds expects so many rows, and runs of the handler.
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
	for _, md := range s.seen {
		keys = append(keys, append(md.Get("idempotency-key"), "")[0])
	}
	return keys
}

func with(key string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "idempotency-key", key)
}

var refund = &refundsv1.CreateRefundRequest{Charge: "ch_1", Amount: 1000}

// said is what an answer says about itself.
func said(md metadata.MD) string { return append(md.Get("idempotency-status"), "")[0] }
