package hookrelay

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
)

// signatures says of each request with which secrets it is signed.
type signatures struct {
	mu   sync.Mutex
	with []*webhook.Verifier
	seen [][]bool // by request and secret
}

func (s *signatures) note(_ int, r *http.Request, _ http.ResponseWriter) int {
	body := []byte(`{"n":"` + r.Header.Get(webhook.HeaderID) + `"}`)
	s.mu.Lock()
	defer s.mu.Unlock()
	var by []bool
	for _, v := range s.with {
		_, err := v.Verify(r.Header, body)
		by = append(by, err == nil)
	}
	s.seen = append(s.seen, by)
	return http.StatusOK
}

// signed reports whether the last request is signed with a secret.
func (s *signatures) signed(secret int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1][secret]
}

// TestRotatedWhileSending: while a secret is replaced, each request is signed with the one before, and from some request on with both. When it is replaced at once, each request is signed with
// one of the two, and from some request on with the new one alone. A process that was running when a person rotated needs no other word.
func TestRotatedWhileSending(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		secrets := []string{secret, webhook.NewSecret(), webhook.NewSecret()}
		s := &signatures{}
		for _, one := range secrets {
			s.with = append(s.with, webhook.Standard(one))
		}
		g.to.set("ep_1", s.note)
		told, sent := newEvents(), 0
		g.start(t, nil, webhook.RelayConfig{Observer: told})
		send := func() {
			g.send(t, "a", fmt.Sprint("e", sent), 1)
			sent++
			told.wait(t, webhook.EventDelivered, "ep_1", sent)
		}
		sendUntil := func(done func() bool) {
			for send(); !done(); send() {
				if sent > 10_000 {
					t.Fatal("the relay does not use the new secret")
				}
			}
		}
		rotate := func(to int, overlap time.Duration) {
			_, _, err := g.hooks(nil).Endpoints().Rotate(t.Context(), "a", "ep_1", webhook.Rotation{Secret: secrets[to], Overlap: overlap})
			must(t, err)
		}
		send()
		rotate(1, time.Hour)
		sendUntil(func() bool { return s.signed(1) })
		send()
		both := len(s.seen)
		rotate(2, 0)
		sendUntil(func() bool { return s.signed(2) })
		send()
		began := false
		for i, by := range s.seen {
			switch {
			case i < both && (!by[0] || by[2] || began && !by[1]), i >= both && by[0] == by[2]:
				t.Errorf("request %d of %d, %d of them before the second rotation, is signed with %v", i, len(s.seen), both, by)
			case i >= both && began && by[2] && by[1]:
				t.Errorf("request %d is signed with a secret that was replaced at once", i)
			}
			began = began || by[1]
		}
	})
}
