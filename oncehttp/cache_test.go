package oncehttp_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// TestCachedReplay: it is the one that the store would give, in every line, and the
// store is not asked.
func TestCachedReplay(t *testing.T) {
	answers := map[string]handler{
		"created":    create,
		"declined":   answers(402),
		"empty":      answers(204),
		"not stored": answers(429),
		"too large": func(w http.ResponseWriter, _ *http.Request, tx *memstore.Tx) {
			increment(tx, "n")
			_, _ = w.Write(make([]byte, 3000))
		},
		"many lines": func(w http.ResponseWriter, _ *http.Request, tx *memstore.Tx) {
			increment(tx, "n")
			w.Header()["Link"] = []string{"</a>", "</b>"}
			w.Header().Set("Set-Cookie", "session=secret")
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(strings.Repeat("long ", 300)))
		},
	}
	for name, h := range answers {
		var replays [2]response
		for i, engine := range []once.Config{{}, {Cache: 1 << 20}} {
			s := start(t, setup{Config: oncehttp.Config{MaxStored: 2000}, engine: engine}, h)
			s.post("k", "a")
			before := s.store.asks.Load()
			s.store.down = i == 1 && name != "not stored"
			replays[i] = s.post("k", "a")
			if asked := s.store.asks.Load() != before; i == 1 && asked != (name == "not stored") {
				t.Errorf("%s: the store was asked: %t", name, asked)
			}
			if got := s.post("k", "b"); name != "not stored" && got.status != 422 {
				t.Errorf("%s: another request is told %d", name, got.status)
			}
		}
		for i := range replays {
			replays[i].header.Del("Date")
		}
		if a, b := replays[0], replays[1]; a.status != b.status || a.body != b.body || !maps.EqualFunc(a.header, b.header, func(x, y []string) bool { return strings.Join(x, "\n") == strings.Join(y, "\n") }) {
			t.Errorf("%s: from the store %+v, from the cache %+v", name, a, b)
		}
	}
}

// A gate without room lets pass what the cache has, while the store is down.
func TestGateAsksTheCache(t *testing.T) {
	asked := 0
	full := gate(func(r *http.Request, replay limit.Replay) (func(), *limit.Refusal) {
		if r.Header.Get("Once-Attempt") == "1" {
			return func() {}, nil
		}
		asked++
		if replay.Cached() != replay.Stored(r.Context()) {
			t.Error("the cache and the record disagree")
		}
		if !replay.Cached() {
			return nil, &limit.Refusal{Status: http.StatusServiceUnavailable}
		}
		return func() {}, nil
	})
	s := start(t, setup{Config: oncehttp.Config{Gate: full}, engine: once.Config{Cache: 1 << 20}}, create)
	s.post("k", "a", "Once-Attempt", "1")
	s.store.down = true
	before := s.store.asks.Load()
	if got := s.post("k", "a"); got.status != 201 || got.idempotency() != "replayed" || s.store.asks.Load() != before || asked != 1 {
		t.Errorf("%+v, after %d looks into the store", got, s.store.asks.Load()-before)
	}
	if got := s.post("other", "a"); got.status != 503 || asked != 2 {
		t.Errorf("%+v", got)
	}
}

type gate func(*http.Request, limit.Replay) (func(), *limit.Refusal)

func (g gate) Enter(r *http.Request, replay limit.Replay) (func(), *limit.Refusal) {
	return g(r, replay)
}
