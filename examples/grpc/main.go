// Command grpc makes refunds over gRPC. A client that retries with the same key gets the
// answer of the first time.
package main

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/examples/grpc/refundsv1"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	slog.Error("the server has ended", "error", run(context.Background()))
	os.Exit(1)
}

func run(ctx context.Context) error {
	s, err := open(ctx, "file:refunds.db")
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	return newServer(once.New(s, once.Config{})).Serve(l)
}

func newServer(engine *once.Engine[*sql.Tx]) *grpc.Server {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(
		// interceptors for authentication go here, before the interceptor of once
		oncegrpc.UnaryServerInterceptor(engine, oncegrpc.Config{Principal: account}),
	))
	refundsv1.RegisterRefundsServer(server, service{})
	return server
}

// account is who asks. A real one comes from authentication.
func account(context.Context) string { return "anybody" }

type service struct {
	refundsv1.UnimplementedRefundsServer
}

func (service) CreateRefund(ctx context.Context, req *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	tx := oncegrpc.Tx[*sql.Tx](ctx)
	r := &refundsv1.Refund{Charge: req.GetCharge(), Amount: req.GetAmount()}
	err := tx.QueryRowContext(ctx, "insert into refund (charge, amount) values (?, ?) returning id", r.GetCharge(), r.GetAmount()).Scan(&r.Id)
	return r, err
}

func newClient(target string, opts ...grpc.DialOption) (refundsv1.RefundsClient, error) {
	conn, err := grpc.NewClient(target, append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), // one layer retries
		grpc.WithChainUnaryInterceptor(oncegrpc.UnaryClientInterceptor(oncegrpc.ClientConfig{})),
	)...)
	return refundsv1.NewRefundsClient(conn), err
}

// refund asks until there is an answer. The key names the intent: keep it with that.
func refund(ctx context.Context, c refundsv1.RefundsClient, key, charge string, amount int64) (*refundsv1.Refund, error) {
	ctx = oncegrpc.WithKey(ctx, key)
	return c.CreateRefund(ctx, &refundsv1.CreateRefundRequest{Charge: charge, Amount: amount})
}

func open(ctx context.Context, dsn string) (*sqlstore.Store, error) {
	db, err := sqlstore.Open("sqlite", dsn+pragmas)
	if err != nil {
		return nil, err
	}
	return prepare(ctx, db)
}

const pragmas = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"

// prepare makes the tables, and returns a store.
func prepare(ctx context.Context, db *sql.DB) (*sqlstore.Store, error) {
	if err := sqlstore.Migrate(ctx, db); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "create table if not exists refund (id integer primary key, charge text, amount integer)"); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, sqlstore.Config{})
}
