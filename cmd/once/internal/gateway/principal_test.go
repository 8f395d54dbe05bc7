package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
)

// TestStrangersAreLogged: a caller who is named from an address that trusted_from does not list gets 401, and a warning says so, once in a minute. A caller
// without a name, or with two from a trusted address, gets 401 alone.
func TestStrangersAreLogged(t *testing.T) {
	t.Parallel()
	cfg, src, err := parse("once.yaml", []byte("gateway: {upstream: http://127.0.0.1:1, principal: {header: x-tenant, trusted_from: [10.0.0.0/8]}, routes: [{match: POST /pay}]}"), flags{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &proxy{back: memory(), guards: newGuards(), observer: once.Discard}
		p.strangers.log = slog.New(slog.NewTextHandler(&log, nil))
		gen, err := p.build(cfg, src)
		if err != nil {
			t.Fatal(err)
		}
		defer gen.gw.Close()
		send := func(from string, names ...string) {
			t.Helper()
			r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("x"))
			r.Header["Idempotency-Key"], r.Header["X-Tenant"], r.RemoteAddr = []string{"k"}, names, from
			w := httptest.NewRecorder()
			if gen.gw.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
				t.Errorf("from %s: %d %s", from, w.Code, w.Body)
			}
		}
		logged := func() int { return strings.Count(log.String(), "level=WARN") }
		send("127.0.0.1:1")
		send("10.0.0.1:1", "ada", "bob")
		if logged() != 0 {
			t.Errorf("no stranger has come: %s", &log)
		}
		send("127.0.0.1:1", "ada")
		send("[::1]:1", "ada")
		if logged() != 1 || !strings.Contains(log.String(), `msg="the header x-tenant came from 127.0.0.1, and trusted_from does not list this address. Try: `) {
			t.Errorf("two strangers have come: %s", &log)
		}
		<-time.After(warnEvery)
		send("[::ffff:127.0.0.2]:1", "ada")
		if logged() != 2 || !strings.Contains(log.String(), "came from 127.0.0.2,") {
			t.Errorf("a minute later: %s", &log)
		}
	})
}
