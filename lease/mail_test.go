package lease_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// mailServer speaks SMTP, and fails as it is told.
type mailServer struct {
	address string

	mu       sync.Mutex
	messages []string // that it has taken
	refuse   bool     // answers 550 to a recipient
	answer   string   // to a message that it has read and does not take
	silent   bool     // takes a message, and closes the connection instead of an answer
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &mailServer{address: l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return m
}

func (m *mailServer) fails(refuse, silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse, m.silent = refuse, silent
}

func (m *mailServer) answers(answer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

func (m *mailServer) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.messages
}

func (m *mailServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := textproto.NewReader(bufio.NewReader(conn))
	say := func(line string) { _, _ = fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 mail.test")
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " ?")[0]); verb {
		case "RCPT":
			m.mu.Lock()
			refuse := m.refuse
			m.mu.Unlock()
			if refuse {
				say("550 no such user")
				continue
			}
			say("250 ok")
		case "DATA":
			say("354 go on")
			text, err := in.ReadDotBytes()
			if err != nil {
				return
			}
			m.mu.Lock()
			silent, answer := m.silent, m.answer
			if answer == "" {
				answer = "250 taken"
				m.messages = append(m.messages, string(text))
			}
			m.mu.Unlock()
			if silent {
				return
			}
			say(answer)
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// send sends a mail by net/smtp. It tells apart what was certainly not sent, what was refused, and the rest.
func send(ctx context.Context, address, to, messageID, body string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return lease.NotSent(err)
	}
	c, err := smtp.NewClient(conn, "mail.test")
	if err != nil {
		return lease.NotSent(errors.Join(err, conn.Close()))
	}
	defer func() { _ = c.Close() }()
	if err := errors.Join(conn.SetDeadline(time.Now().Add(time.Minute)), c.Mail("shop@acme.example")); err != nil { // net/smtp knows no context
		return notTaken(err)
	}
	if err := c.Rcpt(to); err != nil {
		return notTaken(err)
	}
	w, err := c.Data()
	if err != nil {
		return notTaken(err)
	}
	_, err = fmt.Fprintf(w, "Message-ID: %s\r\nTo: %s\r\nSubject: Welcome\r\n\r\n%s\r\n", messageID, to, body)
	err = errors.Join(err, w.Close())
	if errors.As(err, new(*textproto.Error)) { // the server has answered that it does not take it
		return notTaken(err)
	}
	return err // without an answer, the server may have it
}

// notTaken is the error for a mail that the server does not have: never with this address or text, or not this time.
func notTaken(err error) error {
	if refused := (*textproto.Error)(nil); errors.As(err, &refused) && refused.Code >= 500 {
		return &once.Failure{Code: "refused", Message: refused.Msg}
	}
	return lease.NotSent(err)
}

// The welcome mail is sent at most once: if the server times out after it has taken the mail, the outcome is unknown.
func TestWelcomeMail(t *testing.T) {
	ctx, s, server := t.Context(), memstore.New(), newMailServer(t)
	jobs := node(s)
	to, body := "customer42@mail.example", "Welcome!"
	address := server.address
	welcome := func(customer string) (once.Result[string], error) {
		op := once.Operation{Scope: "acme mail", Key: once.DeriveKey("welcome-email", customer), Retain: once.Forever}
		return once.Do(ctx, jobs, op, func(ctx context.Context, run *lease.Run) (string, error) {
			return lease.Call(ctx, run, "send", func(ctx context.Context, key string) (string, error) {
				return key, send(ctx, address, to, "<"+key+"@acme.example>", body) // a Message-ID that never changes
			}, lease.CallPolicy{})
		})
	}
	count := func(n int) {
		t.Helper()
		if got := len(server.taken()); got != n {
			t.Errorf("%d mails, want %d", got, n)
		}
	}

	address = "127.0.0.1:1" // no server
	_, err := welcome("41")
	wantOutcome(t, err, once.CodeFailed, once.EffectNotApplied)
	address = server.address
	for range 3 {
		if _, err := welcome("41"); err != nil {
			t.Error(err)
		}
		s.Advance(10000 * time.Hour)
	}
	count(1)

	server.fails(true, false)
	for range 2 {
		if _, err := welcome("no one"); !errors.As(err, new(*once.Failure)) {
			t.Error(err)
		}
	}
	count(1)

	server.fails(false, false)
	server.answers("451 try again later")
	_, err = welcome("43")
	wantOutcome(t, err, once.CodeFailed, once.EffectNotApplied)
	server.answers("554 no spam")
	for range 2 {
		if _, err := welcome("43"); !errors.As(err, new(*once.Failure)) {
			t.Error(err)
		}
	}
	server.answers("")
	count(1)

	server.fails(false, true)
	for range 3 {
		_, err := welcome("42")
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	}
	server.fails(false, false)
	_, err = welcome("42")
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	count(2)

	name := store.ID{Scope: "acme mail", Key: once.DeriveKey("welcome-email", "42")}
	messageID := lease.Key(name.Scope, name.Key, "send", 0) + "@acme.example"
	if mail := server.taken()[1]; !strings.Contains(mail, messageID) { // what a person finds in the server's log
		t.Errorf("%q has no %s", mail, messageID)
	}
	rec, err := s.Read(ctx, name)
	must(t, err)
	p, err := lease.ProgressOf(name, rec)
	must(t, err)
	must(t, lease.Resolve(ctx, s, name, lease.Resolution{CallID: p.CallID, Result: []byte(`"found in the log"`), Retain: once.Forever}))
	if r, err := welcome("42"); err != nil || r.Value != "found in the log" {
		t.Errorf("%+v, %v", r, err)
	}
	count(2)
}
