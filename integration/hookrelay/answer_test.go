package hookrelay

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
)

// TestAnswersOfTheHostBefore: whether a tenant sees an answer depends on the host that has given it, and not on that which the endpoint has now.
func TestAnswersOfTheHostBefore(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const inside, outside = "127.0.0.1", "localhost"
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		g.to.set("ep_1", func(_ int, r *http.Request, w http.ResponseWriter) int {
			_, _ = w.Write([]byte("from " + r.Host))
			return http.StatusOK
		})
		told := newEvents()
		stop := g.start(t, nil, webhook.RelayConfig{Observer: told})
		g.send(t, "a", "first", 1)
		told.wait(t, webhook.EventDelivered, "ep_1", 1)
		stop()
		es := g.hooks(nil).Endpoints()
		e, err := es.Get(t.Context(), "a", "ep_1")
		must(t, err)
		e.URL = strings.Replace(e.URL, inside, outside, 1)
		_, err = es.Update(t.Context(), e)
		must(t, err)
		g.start(t, nil, webhook.RelayConfig{Observer: told})
		g.send(t, "a", "second", 1)
		told.wait(t, webhook.EventDelivered, "ep_1", 2)
		for show, want := range map[string][2]bool{"": {}, outside: {false, true}, inside: {true, false}} {
			for i, event := range []string{"first-0", "second-0"} {
				if answer := g.shown(t, show, event); answer != "" != want[i] {
					t.Errorf("answers of %q are shown, and that of %s is %q", show, event, answer)
				}
			}
		}
	})
}

// shown is the answer of the last attempt of an event, as its tenant sees it who sees those of one host.
func (g *fixture) shown(t *testing.T, host, event string) string {
	t.Helper()
	g.config.ShowAnswersOf = []string{host}
	h := g.hooks(nil).Handler("", func(*http.Request) string { return "a" })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/endpoints/ep_1/deliveries/"+event, http.NoBody))
	var answer struct {
		Attempts []struct{ Answer string }
	}
	must(t, json.Unmarshal(w.Body.Bytes(), &answer))
	if len(answer.Attempts) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return answer.Attempts[0].Answer
}
