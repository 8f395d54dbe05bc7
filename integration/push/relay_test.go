package push

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// receiverPlan is what a receiver process does.
type receiverPlan struct {
	Database harness.Database
	KillAt   int // it kills itself at this named point
}

// CarryOut implements harness.Plan: it prints its address, and receives until it is drained.
func (p receiverPlan) CarryOut(ctx context.Context) error {
	return p.Database.Use(ctx,
		func(s harness.Store[pgx.Tx]) error { return serve(fixtureOn(p.Database, s), p) },
		func(s harness.Store[*sql.Tx]) error { return serve(fixtureOn(p.Database, s), p) })
}

func serve[TX any](g *fixture[TX], p receiverPlan) error {
	var points atomic.Int64
	point := func() {
		if int(points.Add(1)) == p.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing follows
		}
	}
	receiver := httpbroker.Receiver(g.inbox(inbox.InOrder), func(ctx context.Context, tx TX, m message.Message) error {
		point()
		defer point()
		return g.book(ctx, tx, m)
	}, httpbroker.ReceiverConfig{})
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		point()
		receiver.ServeHTTP(answer{w, point}, r)
		point()
	})}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Shutdown(context.Background())
	}()
	fmt.Println(l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer has a point before it.
type answer struct {
	http.ResponseWriter

	point func()
}

func (a answer) Write(p []byte) (int, error) {
	a.point()
	return a.ResponseWriter.Write(p)
}

// TestRelayToReceiver: a relay delivers by HTTP to a receiver in another process, which is killed at one point after another.
// Each message is applied once, and those of a key in order.
func TestRelayToReceiver(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, testRelayToReceiver[pgx.Tx], testRelayToReceiver[*sql.Tx])
}

func testRelayToReceiver[TX any](t *testing.T, g *fixture[TX]) {
	const keys, each = 4, 6
	sender := newSender(t)
	proxy, err := faultnet.Listen("127.0.0.1:1")
	must(t, err)
	defer func() { _ = proxy.Close() }()
	for i := range each {
		list := []message.Message{{Topic: "mails", Type: "mail"}}
		for k := range keys {
			list = append(list, message.Message{Topic: []string{"refunds", "payouts"}[k%2], Key: key(k / 2), Type: "refund.succeeded", Payload: fmt.Appendf(nil, "%d", i)})
		}
		sender.add(t, list...)
	}
	ctx, stop := context.WithCancel(context.Background())
	relayed := make(chan error, 1)
	relay := sender.box.Relay(httpbroker.Publisher("http://"+proxy.Addr()+"/events", httpbroker.Config{}), outbox.RelayConfig{
		Policy: soon(1 << 30), Observer: outbox.Log(slog.New(slog.DiscardHandler)),
	})
	go func() { relayed <- relay.Run(ctx) }()
	defer func() {
		stop()
		must(t, <-relayed)
	}()
	empty := sender.empty(t)
	harness.Loop(t, 5, func(at int) (killed bool) {
		c := harness.Start(t, receiverPlan{g.Database, at})
		proxy.SetUpstream(<-c.Lines())
		select {
		case <-c.Ended():
			if _, killed = c.End(t); !killed {
				t.Fatal("a receiver has ended by itself")
			}
			return true
		case <-time.After(patience):
			t.Fatalf("the messages do not arrive; the receiver is to be killed at point %d", at)
		case <-empty:
		}
		c.Drain(t)
		return false
	})
	g.wantOnce(t, (keys+1)*each)
	if n := g.count(t, "select count(*) from once_deadletter"); n > 0 {
		t.Errorf("%d dead letters", n)
	}
}

// sender is a service with an outbox.
type sender struct {
	store  *sqlstore.Store
	engine *once.Engine[*sql.Tx]
	box    *outbox.Box[*sql.Tx]
}

func newSender(t *testing.T) *sender {
	t.Helper()
	s, _ := harness.OpenSQL(t, harness.Migrated(t, harness.SQLite, []migration.Set{outbox.Migrations}))
	return &sender{s, once.New(s, once.Config{Observer: once.Discard}), outbox.New(s, outbox.Config{Source: "payments"})}
}

func (s *sender) add(t *testing.T, messages ...message.Message) {
	t.Helper()
	_, err := once.Do(t.Context(), s.engine, once.Operation{Scope: "test", Key: once.NewKey()}, func(ctx context.Context, tx *sql.Tx) (string, error) {
		return "", s.box.Add(ctx, tx, messages...)
	})
	must(t, err)
}

// empty returns a channel that is closed when the outbox is empty.
func (s *sender) empty(t *testing.T) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		for n := 1; n > 0; <-time.After(5 * time.Millisecond) {
			err := s.store.Pool().Query(ctx, store.Statement{SQL: "select (select count(*) from once_outbox) + (select count(*) from once_outbox_failed)"},
				func(row sqlplane.Row) error { return row.Scan(&n) })
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		close(done)
	}()
	return done
}
