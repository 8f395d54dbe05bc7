package payments_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/payments"
)

// TestConcurrentRefunds: 40 refunds of 300 want 12,000 of a charge of 5,000.
func TestConcurrentRefunds(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		charge := s.charge("acme", 5000)
		var made, refused atomic.Int64
		var clients sync.WaitGroup
		for i := range 40 {
			clients.Go(func() {
				r := s.postAs("acme", fmt.Sprint("race-", i), "/refunds", `{"charge_id":"`+charge+`","amount":300}`)
				switch {
				case r.status == 201:
					made.Add(1)
				case r.status == 422 && r.text("code") == "VALIDATION.amount_exceeds_charge":
					refused.Add(1)
				default:
					t.Errorf("%d %s", r.status, r.body)
				}
			})
		}
		clients.Wait()
		if made.Load() != 16 || refused.Load() != 24 {
			t.Errorf("%d made, %d refused, want 16 and 24", made.Load(), refused.Load())
		}
		if got := s.get("acme", "/charges/"+charge).text("refunded"); got != "4800" || s.books("acme", charge) != 32 {
			t.Errorf("refunded %s", got)
		}
	})
}

// TestConcurrentVoids: of many voids with keys of their own, one takes effect.
func TestConcurrentVoids(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		charge := s.charge("acme", 5000)
		refund := s.post("acme", "/refunds", `{"charge_id":"`+charge+`","amount":300}`).text("id")
		var made atomic.Int64
		var clients sync.WaitGroup
		for range 10 {
			clients.Go(func() {
				if r := s.post("acme", "/refunds/"+refund+"/void", ""); r.status == 200 {
					made.Add(1)
				} else if r.status != 422 {
					t.Errorf("%d %s", r.status, r.body)
				}
			})
		}
		clients.Wait()
		if got := s.get("acme", "/charges/"+charge).text("refunded"); made.Load() != 1 || got != "0" || s.books("acme", charge) != 4 {
			t.Errorf("%d voids took effect, refunded %s", made.Load(), got)
		}
	})
}

// TestRetryHasOneEffect: a request that comes again, at the same time or later, takes effect
// once, and every answer is the first one.
func TestRetryHasOneEffect(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{Wait: 20e9}, func(t *testing.T, s service) {
		charge := s.charge("acme", 5000)
		body := `{"charge_id":"` + charge + `","amount":300}`
		replies := make([]reply, 24)
		var clients sync.WaitGroup
		for i := range replies {
			clients.Go(func() { replies[i] = s.postAs("acme", "retried", "/refunds", body) })
		}
		clients.Wait()
		stored := 0
		later := s.postAs("acme", `"retried"`, "/refunds", body)
		for _, r := range slices.Concat(replies, []reply{later}) {
			if r.status != 201 || r.body != replies[0].body || r.header.Get("Location") != replies[0].header.Get("Location") {
				t.Errorf("%d %s, another got %s", r.status, r.body, replies[0].body)
			}
			if r.header.Get("Idempotency-Status") == "stored" {
				stored++
			}
		}
		if stored != 1 || s.books("acme", charge) != 2 {
			t.Errorf("%d executed, %d ledger entries", stored, s.books("acme", charge))
		}

		other := s.postAs("acme", "retried", "/refunds", `{"charge_id":"`+charge+`","amount":301}`)
		s.want(other, 422)
		if other.text("code") != "CONFLICT.idempotency.mismatch" {
			t.Errorf("another body: %s", other.body)
		}
		s.want(s.send("acme", "POST", "/refunds", body), 400) // no key
	})
}

// TestStoredRefusal: a 4xx is an answer, and a retry gets it again although it
// would succeed by now.
func TestStoredRefusal(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		charge := s.charge("acme", 100)
		refund := s.post("acme", "/refunds", `{"charge_id":"`+charge+`","amount":100}`).text("id")
		body := `{"charge_id":"` + charge + `","amount":50}`
		first := s.postAs("acme", "too-much", "/refunds", body)
		s.want(first, 422)
		s.want(s.post("acme", "/refunds/"+refund+"/void", ""), 200)
		again := s.postAs("acme", "too-much", "/refunds", body)
		if again.status != 422 || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%d %s, first %s", again.status, again.body, first.body)
		}
		s.want(s.post("acme", "/refunds", body), 201)
	})
}

// TestUnsafeServiceRefundsTwice: without once, the service is a service like any other.
func TestUnsafeServiceRefundsTwice(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{Unsafe: true}, func(t *testing.T, s service) {
		charge := s.charge("acme", 5000)
		body := `{"charge_id":"` + charge + `","amount":300}`
		one, two := s.postAs("acme", "k", "/refunds", body), s.postAs("acme", "k", "/refunds", body)
		s.want(one, 201)
		s.want(two, 201)
		if one.text("id") == two.text("id") || s.books("acme", charge) != 4 {
			t.Errorf("two refunds were expected: %s %s", one.body, two.body)
		}
		s.want(s.post("acme", "/refunds", `{"charge_id":"`+charge+`","amount":5000}`), 422)
		if n := s.books("acme", charge); n != 4 {
			t.Errorf("%d entries after a refusal, want 4", n)
		}
	})
}
