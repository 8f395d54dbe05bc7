package webhook

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/receiver"
	"github.com/oncelib/once/message"
)

// calls is what a receiver asks of its inbox.
type calls struct {
	handled, refused []message.Message
	failure          error
}

func (c *calls) receiver(v *Verifier) http.Handler {
	refuse := func(_ context.Context, m message.Message, _ string, _ error) error {
		c.refused = append(c.refused, m)
		return c.failure
	}
	return receiver.New(v.receiver(), 1000, refuse, func(_ context.Context, messages []message.Message) []inbox.Result {
		c.handled = append(c.handled, messages...)
		return []inbox.Result{{Outcome: inbox.Applied, Err: c.failure}}
	})
}

func post(h http.Handler, header http.Header, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/hooks/x", strings.NewReader(body))
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestReceiveAnswers: a request that is forged or stale gets 401, and nothing of it is applied or kept. The sender of a good one learns whether to send it again.
func TestReceiveAnswers(t *testing.T) {
	const body = `{"type":"refund.succeeded"}`
	good := signedBy(t, []byte(body), testSecret)
	without := func(name string) http.Header {
		h := good.Clone()
		h.Del(name)
		return h
	}
	later := Standard(testSecret)
	later.Now = func() time.Time { return time.Now().Add(6 * time.Minute) }
	earlier := Standard(testSecret)
	earlier.Now = func() time.Time { return time.Now().Add(-6 * time.Minute) }
	large := strings.Repeat("x", 1001)
	for name, c := range map[string]struct {
		v       *Verifier
		header  http.Header
		body    string
		failure error
		status  int
		handled int
	}{
		"good":                 {Standard(testSecret), good, body, nil, 200, 1},
		"forged":               {Standard(NewSecret()), good, body, nil, 401, 0},
		"changed":              {Standard(testSecret), good, body + " ", nil, 401, 0},
		"unsigned":             {Standard(testSecret), without(HeaderSignature), body, nil, 401, 0},
		"without an id":        {Standard(testSecret), without(HeaderID), body, nil, 401, 0},
		"stale":                {later, good, body, nil, 401, 0},
		"of the future":        {earlier, good, body, nil, 401, 0},
		"failed":               {Standard(testSecret), good, body, errors.New("a secret of the handler"), 500, 1},
		"no database":          {Standard(testSecret), good, body, &once.Error{Code: once.CodeUnavailable}, 503, 1},
		"too large":            {Standard(testSecret), signedBy(t, []byte(large), testSecret), large, nil, 413, 0},
		"too large to be read": {Standard(testSecret), good, strings.Repeat("x", 1<<20), nil, 413, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := calls{failure: c.failure}
			var why []error
			c.v.Refused = func(_ *http.Request, err error) { why = append(why, err) }
			w := post(in.receiver(c.v), c.header, c.body)
			if isStale := strings.Contains(name, "stale") || strings.Contains(name, "future"); (c.status == http.StatusUnauthorized) != (len(why) == 1) ||
				isStale != (len(why) == 1 && errors.Is(why[0], ErrStale)) {
				t.Errorf("%d, and the service learns %v", w.Code, why)
			}
			if w.Code != c.status || len(in.handled) != c.handled {
				t.Errorf("%d %s, %d handled", w.Code, w.Body, len(in.handled))
			}
			if c.status == http.StatusUnauthorized && len(in.refused) > 0 {
				t.Errorf("of a request that is not verified, %+v is kept", in.refused)
			}
			for _, secret := range []string{"secret of", testSecret[6:], good.Get(HeaderSignature)[3:], "stale", "timestamp"} {
				if strings.Contains(w.Body.String(), secret) {
					t.Errorf("the answer tells %q: %s", secret, w.Body)
				}
			}
			for _, m := range in.handled {
				if m.ID != "msg_1" || m.Type != "refund.succeeded" || m.Source != "webhook" || m.Topic != "webhook" || string(m.Payload) != body {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

// TestReceiveKeepsNoSignature: what a message keeps of the headers is that of the event.
func TestReceiveKeepsNoSignature(t *testing.T) {
	for _, c := range vectors(t) {
		if !c.Valid || c.ID == "" {
			continue
		}
		var in calls
		h := c.header()
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Authorization": "Bearer x", "Cookie": "x", "Once-Topic": "other", "Idempotency-Key": "other", "Ce-Id": "other",
			"Tenant": "7", "Bad": "a\x00",
		} {
			h.Set(name, value)
		}
		h.Add("Tenant", "8")
		w := post(in.receiver(c.verifier()), h, c.Body)
		if w.Code != http.StatusOK || len(in.handled) != 1 {
			t.Fatalf("%s %s: %d %s", c.Scheme, c.Name, w.Code, w.Body)
		}
		m := in.handled[0]
		if m.Headers["content-type"] != "application/json" || m.Headers["tenant"] != "7, 8" || m.Topic != m.Source || m.ID != c.ID {
			t.Errorf("%+v", m)
		}
		for name, value := range m.Headers {
			if strings.Contains(name, "signature") || strings.Contains(name, "hmac") || strings.ContainsAny(value, "\x00") || name == "authorization" ||
				name == "cookie" || strings.HasPrefix(name, "once-") || strings.HasPrefix(name, "ce-") || strings.HasPrefix(name, "idempotency") {
				t.Errorf("%s: kept %s: %s", c.Name, name, value)
			}
		}
	}
}

// TestReceiveWithoutID: an event whose ID is missing is refused for good: it cannot be told from its repetition.
func TestReceiveWithoutID(t *testing.T) {
	for _, c := range vectors(t) {
		if c.Name != "one signature" {
			continue
		}
		var in calls
		if w := post(in.receiver(c.verifier()), c.header(), c.Body); w.Code != http.StatusBadRequest || len(in.handled)+len(in.refused) > 0 {
			t.Errorf("%d %s: %+v", w.Code, w.Body, in)
		}
		return
	}
	t.Error("vacuous")
}

// TestSlackChallenge: a new endpoint is confirmed, if Slack has signed the challenge, and nothing is applied.
func TestSlackChallenge(t *testing.T) {
	const challenge = `{"token":"x","challenge":"3eZbrw1aB10<FEgZA","type":"url_verification"}`
	v := Slack("secret")
	v.Now = func() time.Time { return time.Unix(1531420618, 0) }
	s := signed{stamp: "1531420618", body: []byte(challenge)}
	sum := v.form.keys[0].sum(&v.form, &s).sum
	h := http.Header{"X-Slack-Request-Timestamp": {s.stamp}, "X-Slack-Signature": {"v0=" + hex.EncodeToString(sum)}}
	var in calls
	w := post(in.receiver(v), h, challenge)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || member(w.Body.Bytes(), "challenge") != "3eZbrw1aB10<FEgZA" || len(in.handled) > 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(in.receiver(Slack("other")), h, challenge); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "3eZ") {
		t.Errorf("forged: %d %s", w.Code, w.Body)
	}
}

// TestReceiveNeedsRetention: an inbox that forgets an ID while its sender may still send the event is refused when the program begins.
func TestReceiveNeedsRetention(t *testing.T) {
	own := Standard(testSecret)
	own.Source = "openai"
	for name, c := range map[string]struct {
		v      *Verifier
		retain time.Duration
		of     map[string]time.Duration
		bad    bool
	}{
		"the default":           {Standard(testSecret), 7 * day, nil, false},
		"all others":            {Stripe("s"), 7 * day, nil, false},
		"5 minutes":             {Standard(testSecret), 5 * time.Minute, nil, true},
		"a day, of Stripe":      {Stripe("s"), day, nil, true},
		"a day, of GitHub":      {GitHub("s"), day, nil, true},
		"an hour, of Shopify":   {Shopify("s"), time.Hour, nil, true},
		"an hour, of Slack":     {Slack("s"), time.Hour, nil, true},
		"short for this source": {own, 7 * day, map[string]time.Duration{"openai": time.Hour}, true},
		"long for this source":  {own, time.Hour, map[string]time.Duration{"openai": 7 * day}, false},
		"of another source":     {own, time.Hour, map[string]time.Duration{"webhook": 7 * day}, true},
		"a table":               {Scheme{Source: "s", Header: "Sig", ID: "Id", Redelivery: 2 * day}.Verifier("s"), day, nil, true},
		"no ID":                 {Scheme{Source: "s", Header: "Sig"}.Verifier("s"), 7 * day, nil, true},
	} {
		if err := c.v.check(c.retain, c.of); (err != nil) != c.bad || err != nil && !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
