package payments_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

// TestChargesAreBatches counts on the wire between the service and PostgreSQL, in both
// dialects: key, charge, answer and COMMIT are one round trip. Refunds, which read, are not:
// the count can tell.
func TestChargesAreBatches(t *testing.T) {
	t.Parallel()
	for dialect, requests := range map[string]struct{ charge, refund [2]string }{
		"": {
			[2]string{"/charges", `{"amount":5000,"currency":"EUR","customer":"ada"}`},
			[2]string{"/refunds", `{"charge_id":"ID","amount":1}`},
		},
		payments.StripeV1: {
			[2]string{"/v1/charges", `amount=5000&currency=eur&description=books&metadata[order]=17`},
			[2]string{"/v1/refunds", `charge=ID&amount=1`},
		},
	} {
		t.Run("dialect "+dialect, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(testenv.NewDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			proxy, err := faultnet.Listen(u.Host)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			u.Host = proxy.Addr()
			q := u.Query()
			q.Set("pool_max_conns", "1")
			u.RawQuery = q.Encode()
			s := start(t, u.String(), payments.Config{Dialect: dialect})

			id := ""
			// fewest is without what is paid once for a connection, and for one that was idle.
			fewest := func(request [2]string) int64 {
				t.Helper()
				least := int64(1 << 62)
				for i := range 5 {
					before := proxy.Stats().RoundTrips
					r := s.send("acme", "POST", request[0], strings.ReplaceAll(request[1], "ID", id),
						"Content-Type: application/x-www-form-urlencoded", fmt.Sprint("Idempotency-Key: ", request[0], i))
					if least = min(least, proxy.Stats().RoundTrips-before); r.status/100 != 2 {
						t.Fatalf("%d %s", r.status, r.body)
					}
					if got := r.text("id"); strings.HasPrefix(got, "ch_") {
						id = got
					}
				}
				return least
			}
			if n := fewest(requests.charge); n != 1 {
				t.Errorf("a charge takes %d round trips, want 1", n)
			}
			if n := fewest(requests.refund); n < 3 {
				t.Errorf("a refund takes %d round trips: the count is vacuous", n)
			}
		})
	}
}
