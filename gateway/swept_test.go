package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// away is receipts that cannot be reached at first.
type away struct {
	*memory

	away atomic.Bool
}

func (a *away) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	if a.away.Load() {
		return gateway.Receipt{}, errors.New("the database of the service is away")
	}
	return a.memory.Settle(ctx, operation)
}

// committing is the connection to a service that commits and answers nothing but warm. All of it is in the memory of the test.
func committing(m *memory, forwards *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			r, err := http.ReadRequest(bufio.NewReader(server))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			m.put(gateway.Receipt{Operation: r.Header.Get(gateway.OperationHeader), Status: 201, Body: []byte("paid")})
			if r.Header.Get("X-Warm") != "" {
				_, _ = io.WriteString(server, ok1)
				return
			}
			forwards.Add(1)
		}()
		return client, nil
	}
}

var warmed atomic.Int64 // keys of warm

// warm sends a request that the service answers, with its receipt: from then on the gateway knows that the service writes receipts on the route.
func warm(t *testing.T, g http.Handler, path string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("1"))
	r.Header.Set("Idempotency-Key", fmt.Sprint("warm ", warmed.Add(1)))
	r.Header.Set("X-Warm", "1")
	want(t, "status of the first request", send(g, r).StatusCode, http.StatusCreated)
}

// TestSweptReceiptDoesNotExecuteAgain: an operation that is unknown, and that was not asked about before its receipt was swept, is left to a
// person: it is not forwarded again, and no tombstone says that it was not executed. Before, the receipt decides.
func TestSweptReceiptDoesNotExecuteAgain(t *testing.T) {
	const day = 24 * time.Hour
	for age, swept := range map[time.Duration]bool{26 * day: false, 28 * day: true} {
		synctest.Test(t, func(t *testing.T) {
			defer func() { <-time.After(time.Minute) }() // hearts end
			var forwards atomic.Int64
			m := &away{memory: &memory{}}
			m.away.Store(true)
			g := newGateway(t, "http://service", func(c *gateway.Config) {
				c.Dial, c.Receipts, c.Routes[0].OnUnknown = committing(m.memory, &forwards), m, gateway.PolicyCheck
				c.Store = lease.New(memstore.New(), lease.Config{Log: slog.New(slog.DiscardHandler)})
			})
			warm(t, g, "/pay")
			want(t, "code", codeOf(t, ask(g, "k", "1")), unknown)
			<-time.After(age)
			m.away.Store(false)
			if swept {
				m.all = nil
			}
			resp := ask(g, "k", "1")
			want(t, "forwards", forwards.Load(), int64(1))
			if !swept {
				want(t, "body", bodyOf(t, resp), "paid")
				return
			}
			want(t, "told to come again", resp.Header.Get("Retry-After"), "")
			want(t, "code after the sweep", codeOf(t, resp), unknown)
			want(t, "tombstones", len(m.all), 0)
		})
	}
}

// TestUUIDKeys: what is no UUID is refused and not forwarded.
func TestUUIDKeys(t *testing.T) {
	t.Parallel()
	var forwards atomic.Int64
	m := &memory{}
	g := newGateway(t, "http://service", func(c *gateway.Config) {
		c.Dial, c.Store, c.Receipts, c.ReceiptsKept, c.Routes[0].UUIDKeys = committing(m, &forwards), nil, m, time.Hour, true
	})
	const key = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	for _, bad := range []string{"k", strings.ToUpper(key), "{" + key + "}"} {
		want(t, "code of "+bad, codeOf(t, ask(g, bad, "1")), string(oncehttp.ProblemKeyInvalid))
	}
	want(t, "forwards", forwards.Load(), int64(0))
	want(t, "status", ask(g, key, "1").StatusCode, http.StatusCreated)
	want(t, "forwards", forwards.Load(), int64(1))
}

// TestOldRetryOfReceiptsAlone: without a store, a retry that says when it was first sent is refused if its receipt may be gone, and replayed while
// it is there.
func TestOldRetryOfReceiptsAlone(t *testing.T) {
	t.Parallel()
	var forwards atomic.Int64
	m := &memory{}
	g := newGateway(t, "http://service", func(c *gateway.Config) {
		c.Dial, c.Store, c.Receipts, c.ReceiptsKept, c.Routes[0].KeyTime = committing(m, &forwards), nil, m, 10*time.Hour, true
	})
	at := func(ago time.Duration) string { return strconv.FormatInt(time.Now().Add(-ago).UnixMilli(), 10) }
	resp := ask(g, "k", "1", "Once-First-Sent", at(8*time.Hour))
	want(t, "status", resp.StatusCode, http.StatusCreated)
	want(t, "retention", resp.Header.Get("Idempotency-Retention"), "36000")
	want(t, "status of an old retry", ask(g, "k", "1", "Once-First-Sent", at(99*time.Hour)).StatusCode, http.StatusCreated)
	m.all = nil
	want(t, "code after the sweep", codeOf(t, ask(g, "k", "1", "Once-First-Sent", at(9*time.Hour))), string(oncehttp.ProblemStale))
	want(t, "code of an old key", codeOf(t, ask(g, "01890a5d-ac96-774b-bcce-b302099a8057", "1")), string(oncehttp.ProblemStale))
	want(t, "forwards", forwards.Load(), int64(1))
}
