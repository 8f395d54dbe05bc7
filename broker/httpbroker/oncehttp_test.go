package httpbroker_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/memstore"
)

// TestReceiverWithOncehttp: a receiver with package oncehttp applies a message once, although its answers are
// lost and the message is delivered again.
func TestReceiverWithOncehttp(t *testing.T) {
	for _, strict := range []bool{false, true} {
		var applied, requests atomic.Int64
		preset := oncehttp.DefaultPreset()
		preset.QuotedKeys = strict
		handler := oncehttp.Handler(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Preset: preset},
			func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				if err := tx.Insert("refund", "done"); err != nil {
					oncehttp.Fail(w, r, err)
					return
				}
				applied.Add(1)
				w.WriteHeader(http.StatusAccepted)
			})
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) > 4 {
				handler.ServeHTTP(w, r)
				return
			}
			handler.ServeHTTP(httptest.NewRecorder(), r) // its answer is lost
			panic(http.ErrAbortHandler)
		}))
		p := httpbroker.Publisher(receiver.URL, httpbroker.Config{Quoted: strict})
		messages := []message.Message{{Topic: "refunds", ID: once.NewKey(), Type: "refund.succeeded", Payload: []byte("{}")}}

		// The client of package net/http sends a request with an idempotency key again by itself
		// when its connection is lost: not every lost answer is seen here.
		calls := 1
		for ; ; calls++ {
			errs := p.Publish(t.Context(), messages)
			if errs == nil {
				break
			}
			if retry.IsPermanent(errs[0]) || outbox.IsUnavailable(errs[0]) || requests.Load() > 5 {
				t.Fatalf("strict %v: the answer is lost: %v", strict, errs)
			}
		}
		if calls < 2 {
			t.Errorf("strict %v: no answer was lost", strict)
		}
		if n := applied.Load(); n != 1 {
			t.Errorf("strict %v: applied %d times", strict, n)
		}
		marker := messages[0]
		marker.Type, marker.Payload = message.TypeSkipped, nil
		if errs := p.Publish(t.Context(), []message.Message{marker}); errs != nil && retry.IsPermanent(errs[0]) {
			t.Errorf("strict %v: the marker of a message that was applied is refused for good: %v", strict, errs)
		}
		receiver.Close()
	}
}
