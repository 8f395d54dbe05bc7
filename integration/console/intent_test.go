package console_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/console"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// journalOf keeps what is logged.
type journalOf struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (j *journalOf) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// has reports whether one line has all of some texts.
func (j *journalOf) has(texts ...string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.SplitSeq(j.buf.String(), "\n") {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}

func (j *journalOf) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// TestOneIntent follows one intent through two services with a database each: from the HTTP request to the operation, its events, their
// deliveries and the row of the inbox, and back. Logs of both sides name it.
func TestOneIntent(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		a, b := harness.Migrated(t, kind, sets), harness.Migrated(t, kind, sets)
		if kind == harness.Pgx {
			sender, _ := harness.OpenPgx(t, a)
			receiver, _ := harness.OpenPgx(t, b)
			followIntent(t, sender, receiver)
			return
		}
		sender, _ := harness.OpenSQL(t, a)
		receiver, _ := harness.OpenSQL(t, b)
		followIntent(t, sender, receiver)
	})
}

// pagesOf is a console of a store, for an operator.
func pagesOf[TX any](t *testing.T, s harness.Store[TX]) (*operate.Operator, *fixture) {
	t.Helper()
	g := &fixture{Database: s, operator: operate.New(s, operate.Config{})}
	g.users = map[string]console.User{"ada": {Name: "ada", Role: console.RoleOperator}}
	g.server = httptest.NewServer(console.Handler(console.Config{Operate: g.operator, User: g.who}))
	t.Cleanup(g.server.Close)
	return g.operator, g
}

func followIntent[TX any](t *testing.T, sender, receiver harness.Store[TX]) {
	t.Helper()
	var sent, received journalOf
	there, theirs := pagesOf(t, receiver)
	here, ours := pagesOf(t, sender)

	// The second service applies what it gets, and refuses the first delivery.
	ledger := inbox.New(once.New(receiver, once.Config{}), inbox.Config{Consumer: "ledger", Observer: inbox.Log(received.logger())})
	applied := make(chan string, 16)
	consume := httpbroker.Receiver(ledger, func(_ context.Context, _ TX, m message.Message) error {
		applied <- m.ID
		return nil
	}, httpbroker.ReceiverConfig{})
	var first atomic.Bool
	consumer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first.Swap(true) {
			http.Error(w, "not yet", http.StatusConflict)
			return
		}
		consume.ServeHTTP(w, r)
	}))
	t.Cleanup(consumer.Close)

	// The first service refunds, and says so.
	engine := once.New(sender, once.Config{Observer: once.Log(sent.logger())})
	box := outbox.New(sender, outbox.Config{RetainDelivered: time.Hour, Source: "payments"})
	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: func(*http.Request) string { return "acme" }})
	service := httptest.NewServer(protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := box.Add(r.Context(), oncehttp.Tx[TX](r.Context()), message.Message{Topic: "refunds", Key: "ch_1", Type: "refund.created", Payload: []byte(`{"amount":1}`)})
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
	t.Cleanup(service.Close)
	const key = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	for range 2 { // the second one is a retry
		if p := send(t, http.MethodPost, service.URL+"/refunds", "", url.Values{}, "Idempotency-Key", key); p.status != http.StatusCreated {
			t.Fatalf("%d: %s", p.status, p.body)
		}
	}

	// From the key to the event, and back.
	found, err := here.Keys.Find(t.Context(), key)
	harness.Must(t, err)
	if len(found) != 1 {
		t.Fatalf("%d operations", len(found))
	}
	id := found[0].ID()
	event := trailOf(t, here, id, operate.EventWaiting)
	m, err := here.Outbox.Show(t.Context(), event.ID)
	harness.Must(t, err)
	hash := once.KeyHash(key)
	if m.Operation == nil || m.Operation.Scope != id.Scope || m.Operation.Key != id.Key || m.Operation.KeyHash != hash {
		t.Fatalf("the message names the operation %+v, want %+v", m.Operation, id)
	}
	page := ours.get(t, "ada", "message?id="+event.ID)
	_, back, _ := strings.Cut(page.body, `<a href="operation?id=`)
	back, _, _ = strings.Cut(back, `"`)
	if p := ours.get(t, "ada", "operation?id="+back); p.status != http.StatusOK || !strings.Contains(p.body, "event?id="+event.ID) || !strings.Contains(p.body, hash) {
		t.Errorf("the pages do not lead from the event to the operation and back: %d: %s", p.status, p.body)
	}

	// A relay delivers it, and both logs name event and key.
	relay := box.Relay(httpbroker.Publisher(consumer.URL, httpbroker.Config{}), outbox.RelayConfig{Policy: &retry.Policy{Base: time.Millisecond, Cap: 10 * time.Millisecond}, Observer: outbox.Log(sent.logger())})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	if got := <-applied; got != event.ID {
		t.Fatalf("applied is %s, want %s", got, event.ID)
	}
	harness.Until(t, func() error {
		if !isDelivered(t, here, id) {
			return errors.New("it is not delivered yet")
		}
		return nil
	})
	event = trailOf(t, here, id, operate.EventDelivered)
	if !sent.has("event_id="+event.ID, "idempotency_key="+hash, "outbox: failed") || !sent.has("idempotency_key="+hash, "outcome=replayed") {
		t.Errorf("the log of the sender does not name the intent:\n%s", sent.buf.String())
	}
	if !received.has("event_id="+event.ID, "idempotency_key="+hash, "inbox: applied") {
		t.Errorf("the log of the consumer does not name the intent:\n%s", received.buf.String())
	}

	// The other database has the row of the inbox.
	rows, err := there.Inbox.Find(t.Context(), message.Message{ID: event.ID})
	harness.Must(t, err)
	if len(rows) != 1 || rows[0].Consumer != "ledger" || rows[0].State != string(inbox.StateApplied) || rows[0].AppliedAt.IsZero() || rows[0].Source != "payments" {
		t.Errorf("the inbox has %+v", rows)
	}
	if p := theirs.get(t, "ada", "event?id="+event.ID); !strings.Contains(p.body, "ledger") || !strings.Contains(p.body, "applied") {
		t.Errorf("%d: %s", p.status, p.body)
	}

	// It is sent again by a person, and applied once.
	form := ours.formOf(t, "resend", url.Values{"id": {event.ID}})
	if p := ours.post(t, "ada", "do", form); p.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", p.status, p.body)
	}
	harness.Until(t, func() error {
		if !received.has("event_id="+event.ID, "inbox: duplicate") || !isDelivered(t, here, id) {
			return errors.New("it is not delivered again yet")
		}
		return nil
	})
	if n := ours.count(t, "select count(*) from once_audit where action = 'outbox resend' and who = 'ada' and reason = 'ada: found out' and detail like ?", "%"+event.ID+"%"); n != 1 {
		t.Errorf("%d entries in the audit", n)
	}
	select {
	case <-applied:
		t.Error("it was applied again")
	default:
	}

	// What is not kept leaves its ID with the operation.
	ours.exec(t, "delete from once_outbox_sent")
	if gone := trailOf(t, here, id, operate.EventGone); gone.ID != event.ID {
		t.Errorf("%s, want %s", gone.ID, event.ID)
	}
	if p := ours.get(t, "ada", "operation?id="+back); !strings.Contains(p.body, "event?id="+event.ID) {
		t.Errorf("%d: %s", p.status, p.body)
	}
}

// trailOf returns the one event of an operation, which is in a state.
func trailOf(t *testing.T, o *operate.Operator, id store.ID, state string) operate.Event {
	t.Helper()
	trail, err := o.Trail(t.Context(), id)
	harness.Must(t, err)
	if len(trail.Events) != 1 || trail.Events[0].State != state {
		t.Fatalf("the operation has the events %+v, want one that is %s", trail.Events, state)
	}
	return trail.Events[0]
}

func isDelivered(t *testing.T, o *operate.Operator, id store.ID) bool {
	t.Helper()
	trail, err := o.Trail(t.Context(), id)
	harness.Must(t, err)
	return len(trail.Events) == 1 && trail.Events[0].State == operate.EventDelivered
}
