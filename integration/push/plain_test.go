package push

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
)

// TestPlainPosts: an Idempotency-Key names a message within its topic, and Source keeps tenants apart.
func TestPlainPosts(t *testing.T) {
	t.Parallel()
	g := newSQLite(t)
	plain := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.AnyOrder), g.book, httpbroker.ReceiverConfig{}))
	defer plain.Close()
	tenants := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.AnyOrder), g.book, httpbroker.ReceiverConfig{
		Source: func(r *http.Request, m message.Message) string { return r.Header.Get("Tenant") + "/" + m.Source },
	}))
	defer tenants.Close()
	event := []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "payments", "ce-type", "paid"}
	for i, c := range []struct {
		url     string
		headers []string
		answer  string
		effects int
	}{
		{plain.URL + "/refunds", []string{"Idempotency-Key", "1"}, "applied", 1},
		{plain.URL + "/refunds", []string{"Idempotency-Key", "1"}, "duplicate", 1},
		{plain.URL + "/charges", []string{"Idempotency-Key", "1"}, "applied", 2},
		{plain.URL + "/refunds", event, "applied", 3},
		{tenants.URL + "/refunds", append([]string{"Tenant", "acme"}, event...), "applied", 4},
		{tenants.URL + "/refunds", append([]string{"Tenant", "globex"}, event...), "applied", 5},
		{tenants.URL + "/refunds", append([]string{"Tenant", "acme"}, event...), "duplicate", 5},
		{tenants.URL + "/refunds", []string{"Tenant", "acme", "Idempotency-Key", "1"}, "applied", 6},
		{tenants.URL + "/refunds", []string{"Tenant", "globex", "Idempotency-Key", "1"}, "applied", 7},
	} {
		if status, answer := post(t, c.url, "{}", c.headers...); status != http.StatusOK || answer != `{"outcome":"`+c.answer+`"}`+"\n" {
			t.Errorf("%d: %d %s", i, status, answer)
		}
		if n := g.count(t, "select count(*) from effect"); n != c.effects {
			t.Errorf("%d: %d effects, want %d", i, n, c.effects)
		}
	}
	// With the same source, what differs in topic or type is another message: it is kept, and not told as a duplicate.
	for _, c := range []struct{ topic, kind string }{{"/charges", "paid"}, {"/refunds", "refused"}} {
		headers := []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "payments", "ce-type", c.kind}
		if status, answer := post(t, plain.URL+c.topic, "{}", headers...); status != http.StatusOK || answer != `{"outcome":"dead_lettered"}`+"\n" {
			t.Errorf("%v: %d %s", c, status, answer)
		}
	}
	g.wantLetters(t, "mismatch", 2)
}
