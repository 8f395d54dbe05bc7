package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestQuotaForwardsNothing: a request of a principal that has its quota stored is refused and not forwarded. Its replays are answered, and those of another one are forwarded.
func TestQuotaForwardsNothing(t *testing.T) {
	var forwarded atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		forwarded.Add(1)
		_, _ = w.Write(make([]byte, 10_000))
	}))
	defer service.Close()
	mem := memstore.New()
	quota := limit.NewQuota(mem, limit.QuotaConfig{Bytes: 3 * (upkeep.RecordSize + 10_000), Every: time.Hour})
	g := newGateway(t, service.URL, func(c *gateway.Config) {
		c.Store, c.Quota = lease.New(mem, lease.Config{}), quota
		c.Principal = func(r *http.Request) string { return r.Header.Get("Account") }
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- quota.Run(ctx) }()
	defer func() { stop(); <-ended }()
	var resp *http.Response
	made := int64(0)
	for ; made < 10_000; made++ { // until the first count nothing is refused
		<-time.After(time.Millisecond) // the first count has ten seconds in all, since its goroutine may begin late
		if resp = ask(g, fmt.Sprint(made), "x", "Account", "acme"); resp.StatusCode != http.StatusOK {
			break
		}
	}
	if made < 2 || forwarded.Load() != made { // a request that is stored during the count may count twice
		t.Errorf("%d requests had a quota of three, %d were forwarded", made, forwarded.Load())
	}
	want(t, "status", resp.StatusCode, http.StatusTooManyRequests)
	want(t, "it says when", resp.Header.Get("Retry-After") != "", true)
	want(t, "code", codeOf(t, resp), "RATE_LIMIT.stored_bytes")
	want(t, "a replay", ask(g, "0", "x", "Account", "acme").Header.Get("Idempotency-Status"), "replayed")
	want(t, "another principal", ask(g, "0", "x", "Account", "other").StatusCode, http.StatusOK)
	want(t, "forwarded", forwarded.Load(), made+1)
}

// TestQuotaWithoutAStore: receipts are not the gateway's, and it does not count them.
func TestQuotaWithoutAStore(t *testing.T) {
	u, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = gateway.New(gateway.Config{
		Name: "service", Upstream: u, Principal: oncehttp.SharedPrincipal(), Receipts: &memory{},
		Quota: limit.NewQuota(memstore.New(), limit.QuotaConfig{Bytes: 1}),
	})
	if err == nil || !strings.Contains(err.Error(), "Config.Quota") || !strings.Contains(err.Error(), "Try: ") {
		t.Error(err)
	}
}
