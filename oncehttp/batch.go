package oncehttp

import (
	"net/http"

	"github.com/oncelib/once"
)

// BatchHandler is [Handler] for a handler that reads nothing between its writes: it
// declares them, answers, and returns. Where the store can (pgxstore) key, writes, answer
// and COMMIT are then one round trip, see [once.DoBatch].
//
// The handler runs before anybody has looked whether there is an answer already, also
// for a retry that is then replayed: it must do nothing but declare and answer. Nothing of
// its answer is sent if a write fails: the client gets a problem, and a retry executes.
// Where the answer depends on what writes find, use [Handler].
func BatchHandler[TX any](e *once.Engine[TX], cfg Config, h func(w http.ResponseWriter, r *http.Request, b *once.Batch)) http.Handler {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, Tx[*once.Batch](r.Context())) })
	return &server[TX]{engine: e, plan: compile(cfg, e.Retain()), next: next, always: true, batch: true}
}
