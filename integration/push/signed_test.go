package push

import (
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/webhook"
)

// TestWebhookDuplicates: of 96 deliveries of one event at once, signed at different times with the new and the old secret, one takes effect. Forged ones between them, under the
// same ID, neither take effect nor keep it from the event, and leave no row.
func TestWebhookDuplicates(t *testing.T) {
	t.Parallel()
	onEach(t, testWebhookDuplicates[pgx.Tx], testWebhookDuplicates[*sql.Tx])
}

func testWebhookDuplicates[TX any](t *testing.T, g *fixture[TX]) {
	secret, old := webhook.NewSecret(), webhook.NewSecret()
	server := httptest.NewServer(webhook.Receive(g.inbox(inbox.AnyOrder), webhook.Standard(secret, old), g.book))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 128}}
	defer client.CloseIdleConnections()
	const body = `{"type":"refund.succeeded","data":{"amount":700}}`
	deliver := func(secret, id string, at time.Time) (status int, answer string) {
		s, err := webhook.NewSigner(secret)
		if err != nil {
			return 0, err.Error()
		}
		for {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
			if err != nil {
				return 0, err.Error()
			}
			if err := s.Sign(r.Header, id, at, []byte(body)); err != nil {
				return 0, err.Error()
			}
			resp, err := client.Do(r)
			if err != nil {
				return 0, err.Error()
			}
			text, err := io.ReadAll(resp.Body)
			if _ = resp.Body.Close(); err != nil {
				return 0, err.Error()
			}
			if resp.StatusCode != http.StatusServiceUnavailable { // the sender comes again
				return resp.StatusCode, string(text)
			}
		}
	}
	const copies, forged = 96, 24
	type result struct {
		status int
		answer string
	}
	genuine, foreign := make(chan result, copies), make(chan result, forged)
	for i := range copies {
		go func() {
			status, answer := deliver([]string{secret, old}[i%2], "msg_1", time.Now().Add(-time.Duration(i)*time.Second))
			genuine <- result{status, answer}
		}()
		if i < forged {
			go func() {
				status, answer := deliver(webhook.NewSecret(), "msg_1", time.Now())
				foreign <- result{status, answer}
			}()
		}
	}
	applied := 0
	for range copies {
		r := <-genuine
		if r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.answer)
		}
		applied += strings.Count(r.answer, `"applied"`)
	}
	for range forged {
		if r := <-foreign; r.status != http.StatusUnauthorized {
			t.Errorf("forged: %d %s", r.status, r.answer)
		}
	}
	if status, answer := deliver(webhook.NewSecret(), "msg_2", time.Now()); status != http.StatusUnauthorized {
		t.Errorf("forged: %d %s", status, answer)
	}
	if status, answer := deliver(secret, "msg_3", time.Now().Add(-time.Hour)); status != http.StatusUnauthorized {
		t.Errorf("stale: %d %s", status, answer)
	}
	g.wantOnce(t, 1)
	if applied != 1 {
		t.Errorf("%d answers say that the event was applied", applied)
	}
	if n := g.count(t, "select count(*) from once_inbox"); n != 1 {
		t.Errorf("%d events are known", n)
	}
	if n := g.count(t, "select count(*) from once_deadletter"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
