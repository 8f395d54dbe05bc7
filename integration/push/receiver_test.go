package push

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
)

func event(topic, key string, seq int64) message.Message {
	return message.Message{ID: once.NewKey(), Source: "payments", Topic: topic, Key: key, Seq: seq, Type: "refund.succeeded", Payload: []byte(`{"amount":700}`)}
}

// send publishes a message until it is confirmed.
func send(t *testing.T, p outbox.Publisher, m message.Message) (tries int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tries = 1; ; tries++ {
		errs := p.Publish(ctx, []message.Message{m})
		if errs == nil {
			return tries
		}
		if retry.IsPermanent(errs[0]) || ctx.Err() != nil {
			t.Errorf("try %d: %v", tries, errs[0])
			return tries
		}
	}
}

// TestReceiverAppliesEachMessageOnce: messages of several topics that come by one path, in any order and several times, at the same time,
// are applied once and in the order of their keys.
func TestReceiverAppliesEachMessageOnce(t *testing.T) {
	t.Parallel()
	onEach(t, testReceiver[pgx.Tx], testReceiver[*sql.Tx])
}

func testReceiver[TX any](t *testing.T, g *fixture[TX]) {
	server := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.InOrder), g.book, httpbroker.ReceiverConfig{}))
	defer server.Close()
	const keys, each, copies = 3, 8, 3
	var all []message.Message
	for _, topic := range []string{"refunds", "payouts"} {
		for k := range keys {
			for seq := range each {
				m := event(topic, key(k), int64(seq+1))
				for range copies {
					all = append(all, m)
				}
			}
		}
		all = append(all, event(topic, "", 0))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var group sync.WaitGroup
	var next atomic.Int64
	for range 6 {
		p := httpbroker.Publisher(server.URL, httpbroker.Config{})
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				send(t, p, all[i])
			}
		})
	}
	group.Wait()
	g.wantOnce(t, 2*keys*each+2)
}

// TestReceiverLosesConnections: whatever byte of a request or an answer a connection is lost at, the message is applied
// once when it is confirmed, and half of a message is not taken for a malformed one.
func TestReceiverLosesConnections(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, testReceiverLosesConnections[pgx.Tx], testReceiverLosesConnections[*sql.Tx])
}

func testReceiverLosesConnections[TX any](t *testing.T, g *fixture[TX]) {
	server := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.InOrder), g.book, httpbroker.ReceiverConfig{}))
	defer server.Close()
	proxy, err := faultnet.Listen(strings.TrimPrefix(server.URL, "http://"))
	must(t, err)
	defer func() { _ = proxy.Close() }()
	messages, struck := 0, 0
	for name, fault := range map[string]func(n int64) faultnet.Fault{"request": faultnet.CutAfterClientBytes, "answer": faultnet.CutAfterServerBytes} {
		for n := int64(0); ; n += 17 {
			p := httpbroker.Publisher("http://"+proxy.Addr()+"/events", httpbroker.Config{})
			trigger := proxy.Arm(fault(n))
			messages++
			m := event(name, key(0), n/17+1)
			m.Payload = bytes.Repeat([]byte("x"), 300)
			send(t, p, m)
			proxy.Disarm()
			if trigger.Count() == 0 { // it has survived
				break
			}
			struck++
		}
	}
	if struck < 12 {
		t.Errorf("only %d connections were lost", struck)
	}
	g.wantOnce(t, messages)
	if n := g.count(t, "select count(*) from once_deadletter"); n > 0 {
		t.Errorf("%d dead letters", n)
	}
}

// post sends a request and returns the status and the body of the answer.
func post(t *testing.T, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// TestReceiverGivesUp: a message whose handler fails is refused until it is a dead letter, a malformed one becomes one
// at once, and neither stops others.
func TestReceiverGivesUp(t *testing.T) {
	t.Parallel()
	onEach(t, testReceiverGivesUp[pgx.Tx], testReceiverGivesUp[*sql.Tx])
}

func testReceiverGivesUp[TX any](t *testing.T, g *fixture[TX]) {
	attempts := 0
	server := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.InOrder), func(ctx context.Context, tx TX, m message.Message) error {
		if err := g.book(ctx, tx, m); err != nil || m.Type != "poison" {
			return err
		}
		if attempts++; attempts == 2 {
			panic("the handler of a poison message panics")
		}
		return errors.New("poison")
	}, httpbroker.ReceiverConfig{}))
	defer server.Close()
	event := func(id, kind, seq string) []string {
		return []string{"ce-specversion", "1.0", "ce-id", id, "ce-source", "payments", "ce-type", kind, "ce-partitionkey", "k", "ce-sequence", seq}
	}
	url := server.URL + "/events"
	for try := 1; try <= 2; try++ {
		if status, answer := post(t, url, "{}", event("p", "poison", "1")...); status != http.StatusInternalServerError {
			t.Fatalf("try %d: %d %s", try, status, answer)
		}
	}
	for range 2 { // the last attempt, and one more delivery
		if status, answer := post(t, url, "{}", event("p", "poison", "1")...); status != http.StatusOK || !strings.Contains(answer, `"dead_lettered"`) {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if attempts != 3 {
		t.Errorf("%d attempts", attempts)
	}
	if status, answer := post(t, url, "{}", event("after", "good", "2")...); status != http.StatusOK || !strings.Contains(answer, `"parked"`) {
		t.Errorf("%d %s", status, answer)
	}
	structured := `{"specversion":"1.0","id":"json","source":"other","type":"t","data":{}}`
	for _, outcome := range []string{"applied", "duplicate"} {
		if status, answer := post(t, url, structured, "Content-Type", "application/cloudevents+json"); status != http.StatusOK || !strings.Contains(answer, outcome) {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer := post(t, url, "x", "Idempotency-Key", `"plain"`); status != http.StatusOK || !strings.Contains(answer, outcome) {
			t.Errorf("%d %s", status, answer)
		}
	}
	for range 2 {
		if status, answer := post(t, url, "{}", event("m", "good", "no number")...); status != http.StatusBadRequest || !strings.Contains(answer, "Try: ") {
			t.Errorf("%d %s", status, answer)
		}
		if status, _ := post(t, url, string(bytes.Repeat([]byte("x"), message.MaxPayload+1)), event("l", "good", "3")...); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d", status)
		}
	}
	if n := g.count(t, "select count(*) from effect"); n != 2 {
		t.Errorf("%d effects", n)
	}
	g.wantLetters(t, "malformed", 1)
	g.wantLetters(t, "too_large", 1)
	g.wantLetters(t, "exhausted", 1)
}

// TestReceiverDrains: a server that is shut down answers to the message that it applies.
func TestReceiverDrains(t *testing.T) {
	t.Parallel()
	g := newSQLite(t)
	begun, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.AnyOrder), func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		close(begun)
		<-release
		return g.book(ctx, tx, m)
	}, httpbroker.ReceiverConfig{}))
	defer server.Close()
	server.Config.RegisterOnShutdown(func() { close(release) })
	answered := make(chan []error, 1)
	go func() {
		answered <- httpbroker.Publisher(server.URL, httpbroker.Config{}).Publish(context.Background(), []message.Message{event("refunds", "", 0)})
	}()
	<-begun
	must(t, server.Config.Shutdown(t.Context()))
	if errs := <-answered; errs != nil {
		t.Error(errs)
	}
	g.wantOnce(t, 1)
}

// TestReceiverWithoutDatabase: when the database is gone, a message is neither confirmed nor given up.
func TestReceiverWithoutDatabase(t *testing.T) {
	t.Parallel()
	d := harness.Migrated(t, harness.SQLite, migrations, effects)
	s, db := harness.OpenSQL(t, d)
	g := fixtureOn(d, s)
	server := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.AnyOrder), g.book, httpbroker.ReceiverConfig{}))
	defer server.Close()
	p := httpbroker.Publisher(server.URL, httpbroker.Config{})
	m := event("refunds", "", 0)
	must(t, db.Close())
	for range 5 {
		errs := p.Publish(t.Context(), []message.Message{m})
		if errs == nil || retry.IsPermanent(errs[0]) {
			t.Fatalf("%v", errs)
		}
	}
	s, _ = harness.OpenSQL(t, d)
	g = fixtureOn(d, s)
	again := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.AnyOrder), g.book, httpbroker.ReceiverConfig{}))
	defer again.Close()
	if tries := send(t, httpbroker.Publisher(again.URL, httpbroker.Config{}), m); tries != 1 {
		t.Errorf("%d tries", tries)
	}
	g.wantOnce(t, 1)
}
