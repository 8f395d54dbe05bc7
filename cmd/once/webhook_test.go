package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

// TestWebhookCommands: an operator sees the endpoints of all tenants and what was sent to them, disables one, enables it, and sends again what it
// did not get. What changes something is audited; a preview changes nothing.
func TestWebhookCommands(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		answer := make(chan int, 100)
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(<-answer)
			_, _ = w.Write([]byte("said by the endpoint"))
		}))
		t.Cleanup(receiver.Close)
		u, err := url.Parse(receiver.URL)
		if err != nil {
			t.Fatal(err)
		}
		port, _ := strconv.Atoi(u.Port())
		encrypter, err := once.NewEncrypter(bytes.Repeat([]byte{7}, 32)) // of which the operator needs the key for answers alone
		if err != nil {
			t.Fatal(err)
		}
		key := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(key, []byte(strings.Repeat("07", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		hooks := webhook.New(db.Store, webhook.Config{Encrypter: encrypter, Guard: &ssrf.Guard{AllowHTTP: true, AllowPorts: []uint16{uint16(port)}, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
		ids := map[string]string{}
		for _, tenant := range []string{"acme", "globex"} {
			e, _, err := hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: tenant, URL: receiver.URL + "/" + tenant, Types: []string{"*"}})
			if err != nil {
				t.Fatal(err)
			}
			ids[tenant] = e.ID
		}
		private, public := webhook.NewKeyPair()
		if _, _, err := hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: "initech", URL: receiver.URL, Types: []string{"*"}, Secret: private}); err != nil {
			t.Fatal(err)
		}
		send := func(tenant, id string) {
			_, err := once.Do(t.Context(), once.New(db.Store, once.Config{}), once.Operation{Scope: tenant, Key: id}, func(ctx context.Context, tx *sql.Tx) (string, error) {
				return "", hooks.Send(ctx, tx, webhook.Event{ID: id, Tenant: tenant, Type: "refund.succeeded", Data: []byte("{}")})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		send("acme", "msg_1")
		want := func(words string, code int, says ...string) string {
			out := run(t, append(strings.Fields(strings.NewReplacer("ACME", ids["acme"], "GLOBEX", ids["globex"]).Replace(words)), "--db", dsn)...).want(t, code)
			for _, text := range says {
				if !strings.Contains(out.stdout+out.stderr, text) {
					t.Errorf("once %s: %q is not in\n%s%s", words, text, out.stdout, out.stderr)
				}
			}
			return out.stdout
		}
		want("webhook endpoints", 0, ids["acme"], ids["globex"], "active")
		want("webhook endpoints --tenant acme -o json", 0, `"due_since"`, `"types": [`)
		want("webhook endpoints --tenant initech", 0, "PUBLIC KEY", public) // without the key of the service
		if out := want("webhook endpoints --tenant acme", 0, ids["acme"]); strings.Contains(out, "PUBLIC") {
			t.Errorf("a column without a value: %s", out)
		}
		want("webhook endpoints --state disabled", 0, "no endpoints that match")
		want("webhook endpoints --limit 1", 0, "--after")
		want("webhook deliveries ACME", 0, "msg_1", "waiting", "refund.succeeded")
		want("webhook deliveries GLOBEX", 0, "no deliveries that match")

		relay := hooks.Relay(webhook.RelayConfig{Schedule: []time.Duration{time.Nanosecond}, Observer: webhook.LogRelay(nil)})
		ctx := t.Context()
		ended := make(chan error, 1)
		go func() { ended <- relay.Run(ctx) }()
		t.Cleanup(func() {
			close(answer)
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		answer <- 500
		answer <- 500 // the last one of the schedule
		eventually(t, func() bool { return strings.Contains(want("webhook deliveries ACME --state stopped", 0), "msg_1") })
		want("webhook endpoints --state failing", 0, ids["acme"], "2")
		want("webhook show ACME msg_1 -o json", 0, `"status": 500`)
		want("webhook show ACME msg_1 --payload --key-file "+key, 0, "said by the endpoint", "payload    {}")
		want("webhook show ACME msg_1", 0, "operation  "+once.KeyHash("msg_1")+", scope acme")
		want("keys show msg_1 --scope acme --events", 0, "webhook "+ids["acme"], "stopped")
		want("webhook endpoints --state open", 0, "no endpoints that match")
		want("webhook show ACME msg_9", 3, "Try: ")

		want("webhook disable ACME --reason holiday --by ada", 0, "would disable", "--yes")
		want("webhook disable ACME --reason holiday --by ada --yes", 0, "disabled "+ids["acme"])
		want("webhook endpoints --state disabled", 0, "disabled (person)")
		want("webhook resend ACME msg_1 --reason asked --yes", 1, "webhook enable")
		send("acme", "msg_2") // which it misses
		want("webhook enable ACME --reason back --by ada --yes", 0, "enabled")
		want("webhook recover ACME --since 1h --reason mended --by ada", 0, "would send again", ": 1 event", "--yes")
		want("webhook recover ACME --since 1h --missed --reason mended --by ada", 0, ": 1 event")
		answer <- 200
		want("webhook recover ACME --since 1h --reason mended --by ada --yes", 0, "1 event")
		eventually(t, func() bool { return strings.Contains(want("webhook deliveries ACME --state delivered", 0), "msg_1") })
		answer <- 204
		want("webhook recover ACME --since 1h --missed --reason mended --by ada --yes", 0, "1 event")
		eventually(t, func() bool { return strings.Contains(want("webhook deliveries ACME --state delivered", 0), "msg_2") })
		answer <- 200
		want("webhook resend ACME msg_2 --reason asked --by ada --yes", 0, "sent again")
		eventually(t, func() bool {
			return strings.Contains(want("webhook show ACME msg_2", 0), "resend")
		})
		want("audit list", 0, "webhook disable", "webhook enable", "webhook recover", "webhook replay", "webhook resend", "ada")
	})
}

// TestWebhookUsage: a command line that is wrong is answered with 2, and with what to try.
func TestWebhookUsage(t *testing.T) {
	t.Parallel()
	for args, try := range map[string]string{
		"endpoints --state lost": "--state active", "deliveries": "once webhook endpoints", "show e": "once webhook deliveries", "resend e": "ENDPOINT EVENT", "resend e m": "--reason WHY",
		"disable": "--reason WHY", "recover e": "--since 24h", "deliveries e --state lost": "--state waiting",
	} {
		o := run(t, append([]string{"webhook"}, strings.Fields(args+" --db sqlite:x")...)...).want(t, 2)
		if _, says, _ := strings.Cut(o.stderr, "\nTry: "); !strings.Contains(says, try) {
			t.Errorf("once webhook %s: %s", args, o.stderr)
		}
	}
	url := sqliteURL(t)
	run(t, "migrate", "up", "--only", "operation,operate", "--db", url).want(t, 0)
	run(t, "webhook", "endpoints", "--db", url).want(t, 1)
}

// TestWebhookVerify: a captured request is judged by its signature, also long after it was sent, and the output does not show the secret.
func TestWebhookVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	signed := http.Header{}
	signer, err := webhook.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.Sign(signed, "msg_1", time.Now().Add(-time.Hour), []byte(`{"type":"refund.succeeded"}`)); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for name := range signed {
		fmt.Fprintf(&text, "%s: %s\r\n", name, signed.Get(name))
	}
	lines := text.String()
	good := file("good", "POST /hooks HTTP/1.1\r\n"+lines+"\r\n"+`{"type":"refund.succeeded"}`)
	plain := file("plain", strings.ReplaceAll(lines, "\r\n", "\n")+"\n"+`{"type":"refund.succeeded"}`)
	changed := file("changed", lines+"\r\n"+`{"type": "refund.succeeded"}`)
	secrets, other := file("secrets", "\n"+secret+"\n"), file("other", "whsec_"+strings.Repeat("QUJD", 8)+"\n")
	for _, one := range []struct {
		args string
		code int
		says string
	}{
		{"--scheme standard --secret-file " + secrets + " " + good, 0, "msg_1"},
		{"--scheme standard --secret-file " + secrets + " " + plain, 0, "would refuse this request now"},
		{"--scheme standard --tolerance 2h -o json --secret-file " + secrets + " " + good, 0, `"genuine": true`},
		{"--scheme standard --secret-file " + secrets + " " + changed, 1, "raw bytes"},
		{"--scheme standard --secret-file " + other + " " + good, 1, "the secret of this endpoint"},
		{"--scheme stripe --secret-file " + secrets + " " + good, 1, "--scheme"},
		{"--scheme standard --secret-file " + good + " " + good, 2, "whsec_"},
		{"--scheme hmac --signature-header Webhook-Signature --secret-file " + secrets + " " + good, 1, "raw bytes"},
		{"--scheme hmac --secret-file " + secrets + " " + good, 2, "Try: "},
		{"--scheme other --secret-file " + secrets + " " + good, 2, "stripe"},
		{"--scheme standard " + good, 2, "--secret-file"},
		{"--scheme standard --secret-file " + secrets + " " + secrets, 2, "empty line"},
	} {
		out := run(t, append([]string{"webhook", "verify"}, strings.Fields(one.args)...)...).want(t, one.code)
		if said := out.stdout + out.stderr; !strings.Contains(said, one.says) || strings.Contains(said, secret[8:]) {
			t.Errorf("%s: %s", one.args, said)
		}
	}
}

// TestDoctorOfWebhooks: the doctor tells of deliveries that are due while nothing delivers them, and of endpoints that were disabled because they fail.
func TestDoctorOfWebhooks(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		found := examined(t, dsn)
		if _, asked := found["webhook_due"]; asked {
			t.Error("asked without an endpoint")
		}
		hooks := webhook.New(db.Store, webhook.Config{PlainSecrets: true})
		e, _, err := hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.114.7/hooks", Types: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = once.Do(t.Context(), once.New(db.Store, once.Config{}), once.Operation{Scope: "acme", Key: "k"}, func(ctx context.Context, tx *sql.Tx) (string, error) {
			return "", hooks.Send(ctx, tx, webhook.Event{Tenant: "acme", Type: "refund.succeeded", Data: []byte("{}")})
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, told := examined(t, dsn)["webhook_due"]; told {
			t.Error("told of a delivery that is new")
		}
		db.set(t, "once_webhook_delivery", "due_at", time.Now().Add(-2*time.Hour), "1 = 1")
		examined(t, dsn)["webhook_due"].want(t, "due", warn, "1 endpoint has deliveries that are due, the oldest delivery for 2 h")
		if _, err := hooks.Endpoints().Disable(t.Context(), "acme", e.ID); err != nil {
			t.Fatal(err)
		}
		found = examined(t, dsn)
		_, due := found["webhook_due"]
		if _, disabled := found["webhook_disabled"]; due || disabled {
			t.Errorf("told of an endpoint that a person has disabled: %v", found)
		}
		db.set(t, "once_webhook_endpoint", "disabled_at", time.Now().Add(-3*time.Hour), "1 = 1")
		if _, err := db.ExecContext(t.Context(), "update once_webhook_endpoint set disabled_by = 'failing'"); err != nil {
			t.Fatal(err)
		}
		examined(t, dsn)["webhook_disabled"].want(t, "disabled", warn, "1 webhook endpoint is disabled, the first disabled endpoint for 3 h")
	})
}

// eventually waits for done.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-t.Context().Done():
			t.Fatal("it does not come")
		case <-time.After(50 * time.Millisecond):
		}
	}
}
