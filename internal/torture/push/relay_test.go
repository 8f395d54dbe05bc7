package push

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	httpbroker "github.com/oncelib/once/broker/http"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// childEnv makes this binary a receiver: it holds a receiverPlan.
const childEnv = "ONCE_TORTURE_RECEIVER"

// receiverPlan is what a receiver process does.
type receiverPlan struct {
	Driver, DSN string
	KillAt      int64 // it kills itself at this named point
}

// beReceiver is a receiver process. It prints its address, and ends with its standard input.
func beReceiver(text string) int {
	var p receiverPlan
	err := json.Unmarshal([]byte(text), &p)
	switch {
	case err != nil:
	case p.Driver == "":
		g := &ground[pgx.Tx]{dsn: p.DSN}
		var end func()
		if end, err = openPgx(context.Background(), g, false); err == nil {
			err = serve(g, p)
			end()
		}
	default:
		g := &ground[*sql.Tx]{driver: p.Driver, dsn: p.DSN}
		var end func()
		if end, err = g.openSQL(context.Background(), false); err == nil {
			err = serve(g, p)
			end()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve[TX any](g *ground[TX], p receiverPlan) error {
	var points atomic.Int64
	point := func() {
		if points.Add(1) == p.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing follows
		}
	}
	receiver := httpbroker.Receiver(g.inbox(inbox.InOrder), func(ctx context.Context, tx TX, m inbox.Message) error {
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

// receiverProcess is a child.
type receiverProcess struct {
	address string
	stdin   io.Closer
	ended   chan struct{} // closed
	err     error         // after ended
	said    strings.Builder
}

func startReceiver(t *testing.T, p receiverPlan) *receiverProcess {
	t.Helper()
	text, err := json.Marshal(p)
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	r := &receiverProcess{ended: make(chan struct{})}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = &r.said
	r.stdin, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("a receiver does not begin: %v", cmd.Wait())
	}
	r.address = lines.Text()
	go func() {
		r.err = cmd.Wait()
		close(r.ended)
	}()
	return r
}

// TestRelayToReceiver: a relay delivers by HTTP to a receiver in another process, which is killed at one point after another.
// Each message is applied once, and those of a key in order.
func TestRelayToReceiver(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, testRelayToReceiver[pgx.Tx], testRelayToReceiver[*sql.Tx])
}

func testRelayToReceiver[TX any](t *testing.T, g *ground[TX]) {
	const keys, each = 4, 6
	sender := newSender(t)
	proxy, err := faultnet.Listen("127.0.0.1:1")
	must(t, err)
	defer func() { _ = proxy.Close() }()
	for i := range each {
		list := []outbox.Message{{Topic: "mails", Type: "mail"}}
		for k := range keys {
			list = append(list, outbox.Message{Topic: []string{"refunds", "payouts"}[k%2], Key: key(k / 2), Type: "refund.succeeded", Payload: fmt.Appendf(nil, "%d", i)})
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
	for kills := 0; ; kills++ {
		p := startReceiver(t, receiverPlan{Driver: g.driver, DSN: g.dsn, KillAt: int64(kills + 1)})
		proxy.SetUpstream(p.address)
		select {
		case <-p.ended:
			var exit *exec.ExitError
			if !errors.As(p.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("a receiver has ended: %v: %s", p.err, p.said.String())
			}
			continue
		case <-time.After(patience):
			t.Fatalf("the messages do not arrive; %d kills", kills)
		case <-empty:
		}
		_ = p.stdin.Close()
		<-p.ended
		if p.err != nil {
			t.Errorf("a receiver that is shut down: %v: %s", p.err, p.said.String())
		}
		if kills < 5 {
			t.Errorf("only %d kills", kills)
		}
		t.Logf("%d kills", kills)
		break
	}
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
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "sender.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)")
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, outbox.Migrations))
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	return &sender{s, once.New(s, once.Config{Observer: once.Discard}), outbox.New(s, outbox.Config{Source: "payments"})}
}

func (s *sender) add(t *testing.T, messages ...outbox.Message) {
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
