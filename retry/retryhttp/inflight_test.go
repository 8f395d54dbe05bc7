package retryhttp_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// A request whose first attempt is slow is asked after until that is done, for as long as
// such requests are not most of them; a server that says "in flight" to everything gets
// little more than is asked of it.
func TestInFlightIsPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fast = 20 // for each slow one
		var started time.Time
		waits, stuck := 0, false
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			if n, _ := strconv.Atoi(r.Header.Get("Idempotency-Key")); n%(fast+1) != 0 && !stuck {
				return answer(200), nil
			}
			switch {
			case r.Header.Get("Once-Attempt") == "1" && !stuck:
				started = time.Now()
				return hangs(r)
			case stuck || time.Since(started) < 3*time.Second:
				waits++
				resp := problem(409, inFlight)
				resp.Header.Set("Retry-After", "1")
				return resp, nil
			}
			return answer(200, "Idempotent-Replayed", "true"), nil
		}}
		transport := &retryhttp.Transport{Base: s, Policy: retry.Policy{Timeout: time.Second, Budget: &retry.Budget{}}}
		const slow = 50
		for i := range slow * (fast + 1) {
			if resp, err := post(t.Context(), transport, "Idempotency-Key", strconv.Itoa(i)); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("request %d: %v, %v; %+v", i, resp, err, transport.Policy.Budget.State())
			}
		}
		if waits < 2*slow {
			t.Errorf("vacuous: %d waits", waits)
		}

		stuck = true
		before := len(s.requests())
		for i := range 1000 {
			resp, err := post(t.Context(), transport, "Idempotency-Key", "stuck"+strconv.Itoa(i))
			if err != nil || resp.StatusCode != http.StatusConflict {
				t.Fatal(resp, err)
			}
		}
		if n := len(s.requests()) - before; n > 1050 || n == 1000 {
			t.Errorf("1000 calls made %d requests", n)
		}
	})
}
