package oncehttp_test

// The tests with databases are in integration/oncehttp and integration/openapi: "make test-of DIR=oncehttp" runs them after these.

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// "Applied" is said of an answer whose writes stand, and of no other: first time or replay,
// from the store or the cache, under a key or without one.
func TestAppliedMeansThatTheWritesStand(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		decide  oncehttp.Verdict
		decided bool
		first   string
		again   string
		effects int
	}{
		"201":               {201, 0, false, "executed, applied", "replayed, applied", 1},
		"400":               {400, 0, false, "declined, not applied", "replayed, not applied", 0},
		"402, kept":         {402, oncehttp.VerdictCommit, true, "executed, applied", "replayed, applied", 1},
		"200, rolled back":  {200, oncehttp.VerdictAnswerOnly, true, "declined, not applied", "replayed, not applied", 0},
		"500, made a final": {500, oncehttp.VerdictAnswerOnly, true, "declined, not applied", "replayed, not applied", 0},
	} {
		for _, engine := range []once.Config{{}, {Cache: 1 << 20}} {
			s := start(t, setup{Config: oncehttp.Config{Optional: true}, engine: engine}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				if c.decided {
					oncehttp.Decide(r.Context(), c.decide)
				}
				answers(c.status)(w, r, tx)
			})
			said := func() string { return fmt.Sprintf("%s, %s", s.log.last().Outcome, s.log.last().Effect) }
			for i, want := range []string{c.first, c.again, c.again} {
				got := s.post("k", "")
				if e := s.log.last(); got.status != c.status || said() != want || e.To != "done" || e.Err != nil {
					t.Errorf("%s, %d: %s to %q, %v; %+v", name, i, said(), e.To, e.Err, got)
				}
				if _, sent := got.header["Once-Writes"]; sent {
					t.Errorf("%s, %d: the mark is sent", name, i)
				}
			}
			s.expect(1, "n", c.effects)
			s.send("POST", "/refunds", "") // without a key
			if said() != c.first {
				t.Errorf("%s, without a key: %s", name, said())
			}
		}
	}
}

// The mark is the engine's: a handler cannot set it.
func TestTheMarkCannotBeForged(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Headers: []string{"Once-Writes"}}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		w.Header().Set("Once-Writes", "rolled back")
		w.Header()["Content-Type"] = nil
		answers(201)(w, r, tx)
	})
	s.post("k", "")
	rec, err := s.store.Read(t.Context(), store.ID{Scope: "global POST /refunds", Key: "k"})
	stored := slices.ContainsFunc(rec.Result.Header, func(f store.Field) bool { return f.Name == "Once-Writes" })
	if err != nil || rec.State != store.StateDone || rec.Result.RolledBack || stored {
		t.Errorf("%+v, %v", rec, err)
	}
}
