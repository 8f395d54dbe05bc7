package lease

import (
	"context"
	"errors"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// TestMailServerDiesAfterData: the server has stored the welcome mail and is killed before it answers. The outcome is unknown, no
// retry sends a second mail, and the Message-ID, which never changes, tells a person that the first one was taken.
func TestMailServerDiesAfterData(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "aiosmtpd")
	t.Parallel()
	starting, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := testenv.StartSMTP(starting)
	must(t, err)
	defer func() { _ = server.Close() }()
	proxy, err := faultnet.Listen(server.Addr())
	must(t, err)
	defer func() { _ = proxy.Close() }()
	db := newDatabase(t, harness.Postgres).mustOpen(t)
	defer db.close()

	mails := func() []string {
		list, err := server.Mails()
		must(t, err)
		return list
	}
	welcome := func(customer string) (once.Result[string], error) {
		jobs := once.New(lease.New(db.ops, lease.Config{}), once.Config{Observer: once.Discard})
		op := once.Operation{Scope: "acme mail", Key: once.DeriveKey("welcome-email", customer), Retain: once.Forever}
		return once.Do(t.Context(), jobs, op, func(ctx context.Context, run *lease.Run) (string, error) {
			return lease.Call(ctx, run, "send", func(_ context.Context, key string) (string, error) {
				text := "Message-ID: <" + key + "@acme.example>\r\nSubject: Welcome\r\n\r\nWelcome, " + customer + "!\r\n"
				return key, smtp.SendMail(proxy.Addr(), nil, "shop@acme.example", []string{customer + "@mail.example"}, []byte(text))
			}, lease.CallPolicy{})
		})
	}

	for range 2 {
		_, err = welcome("41")
		must(t, err)
	}
	if n := len(mails()); n != 1 {
		t.Fatalf("%d mails, want 1", n)
	}

	proxy.Arm(faultnet.Withhold("\r\n.\r\n"))
	ended := make(chan error, 1)
	go func() {
		_, err := welcome("42")
		ended <- err
	}()
	harness.Until(t, func() error {
		if len(mails()) != 2 {
			return errors.New("the mail is not stored yet")
		}
		return nil
	})
	must(t, server.Kill())
	proxy.CutAll()
	if err := <-ended; once.CodeOf(err) != once.CodeUnknown || once.EffectOf(err) != once.EffectInDoubt {
		t.Errorf("the server is dead: %v", err)
	}
	proxy.Disarm()
	must(t, server.Restart(starting))
	for range 3 {
		if _, err := welcome("42"); once.CodeOf(err) != once.CodeUnknown {
			t.Errorf("the server is there again: %v", err)
		}
	}

	id := store.ID{Scope: "acme mail", Key: once.DeriveKey("welcome-email", "42")}
	key := lease.Key(id.Scope, id.Key, "send", 0)
	found := 0
	for _, mail := range mails() {
		found += strings.Count(mail, key)
	}
	if found != 1 || len(mails()) != 2 {
		t.Errorf("%d of %d mails have the key of the call", found, len(mails()))
	}
	must(t, lease.Resolve(t.Context(), db.ops, id, lease.Resolution{CallID: undecided(t, db.ops, id), Result: []byte(`"found in the mailbox"`)}))
	if r, err := welcome("42"); err != nil || r.Value != "found in the mailbox" || len(mails()) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
