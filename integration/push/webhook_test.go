package push

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
)

// TestWebhooksAreVerifiedAndAppliedOnce: webhooks in the form of their sender, with a signature of the raw bytes and several events in one body, are each applied once. What
// is not signed leaves nothing. If one event fails, the sender sends all again, and those that were applied are duplicates.
func TestWebhooksAreVerifiedAndAppliedOnce(t *testing.T) {
	t.Parallel()
	g := newSQLite(t)
	secret := []byte("whsec")
	sign := func(body string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(body))
		return "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	fails := true
	server := httptest.NewServer(httpbroker.Receiver(g.inbox(inbox.AnyOrder), func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		if m.Type == "contact.failing" && fails {
			return errors.New("not now")
		}
		return g.book(ctx, tx, m)
	}, httpbroker.ReceiverConfig{
		Verify: func(r *http.Request, body []byte) error {
			if !hmac.Equal([]byte(r.Header.Get("X-Hub-Signature-256")), []byte(sign(string(body)))) {
				return errors.New("forged")
			}
			return nil
		},
		Decode: func(_ *http.Request, body []byte) (list []message.Message, err error) {
			var events []struct {
				ID, Type string
				Body     json.RawMessage
			}
			err = json.Unmarshal(body, &events)
			for _, e := range events {
				list = append(list, message.Message{ID: e.ID, Source: "crm", Type: e.Type, Payload: e.Body})
			}
			return list, err
		},
	}))
	defer server.Close()
	const one, two = `[{"id":"1","type":"contact.created","body":{}}]`, `[{"id":"2","type":"contact.created","body":{}},{"id":"3","type":"contact.failing","body":{}}]`
	for i, c := range []struct {
		body, signature string
		status, effects int
		answer          string
	}{
		{one, "sha256=00", http.StatusUnauthorized, 0, ""},
		{one, sign(one), http.StatusOK, 1, `{"outcome":"applied"}` + "\n"},
		{one, sign(one), http.StatusOK, 1, `{"outcome":"duplicate"}` + "\n"},
		{two, sign(one), http.StatusUnauthorized, 1, ""},
		{two, sign(two), http.StatusInternalServerError, 2, ""},
		{two, sign(two), http.StatusOK, 3, `{"outcomes":["duplicate","applied"]}` + "\n"},
		{`[]`, sign(`[]`), http.StatusNoContent, 3, ""},
		{`{`, sign(`{`), http.StatusBadRequest, 3, ""},
	} {
		fails = i < 5
		status, answer := post(t, server.URL+"/crm", c.body, "X-Hub-Signature-256", c.signature)
		if status != c.status || c.answer != "" && answer != c.answer {
			t.Errorf("%d: %d %s", i, status, answer)
		}
		if n := g.count(t, "select count(*) from effect"); n != c.effects {
			t.Errorf("%d: %d effects, want %d", i, n, c.effects)
		}
	}
	g.wantLetters(t, "malformed", 0)
}
