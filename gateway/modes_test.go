package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
)

// TestModesShareReceipts: a route that had PolicyCheck and then has receipts alone, or the other way, finds its operations in the receipts of the
// service: each key takes effect once, also if its first id has a tombstone.
func TestModesShareReceipts(t *testing.T) {
	t.Parallel()
	for _, firstAlone := range []bool{false, true} {
		for _, hashed := range []bool{false, true} {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("first alone: %t, hashed: %t, first forward lost: %t", firstAlone, hashed, lost), func(t *testing.T) {
					t.Parallel()
					m := &memory{}
					var forwards, effects atomic.Int64
					service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						isWarm := r.Header.Get("X-Warm") != ""
						if !isWarm && forwards.Add(1) == 1 && lost {
							panic(http.ErrAbortHandler)
						}
						operation := r.Header.Get(gateway.OperationHeader)
						if _, found, _ := m.Look(r.Context(), operation); found { // a unique violation
							w.WriteHeader(http.StatusConflict)
							return
						}
						m.put(gateway.Receipt{Operation: operation, Fingerprint: r.Header.Get(gateway.FingerprintHeader), Status: 201, Body: []byte("paid")})
						if !isWarm {
							effects.Add(1)
						}
						w.WriteHeader(http.StatusCreated)
						_, _ = w.Write([]byte("paid"))
					}))
					t.Cleanup(service.Close)
					for _, alone := range []bool{firstAlone, !firstAlone, firstAlone} {
						g := newGateway(t, service.URL, func(c *gateway.Config) {
							c.Engine = once.Config{Observer: once.Discard, HashKeys: hashed}
							if c.Receipts, c.Routes[0].OnUnknown = m, gateway.PolicyCheck; alone {
								c.Store = nil
							}
						})
						warm(t, g, "/pay")
						resp := ask(g, "k", "1")
						if resp.StatusCode != http.StatusCreated { // the first forward was lost, or has met the tombstone of an earlier one
							resp = ask(g, "k", "1")
						}
						want(t, "answer", bodyOf(t, resp), "paid")
					}
					want(t, "effects", effects.Load(), int64(1))
					want(t, "receipts and tombstones", len(m.all)-3, map[bool]int{false: 1, true: 2}[lost && !firstAlone])
				})
			}
		}
	}
}
