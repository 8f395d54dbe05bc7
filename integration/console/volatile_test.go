package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once/console"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store/memstore"
)

// frail is a store that may lose what it has confirmed.
type frail struct{ says string }

func (f frail) Volatile() string { return f.says }

// TestWhatMayBeLost: the overview names the stores that may lose what they have confirmed, and no other.
func TestWhatMayBeLost(t *testing.T) {
	t.Parallel()
	_, operator := open(t, harness.Migrated(t, harness.SQLite, sets))
	stores := map[string]any{"mail": frail{"All may be <lost>."}, "safe": memstore.New()}
	server := httptest.NewServer(console.Handler(console.Config{Operate: operator, Stores: stores}))
	t.Cleanup(server.Close)
	p := send(t, http.MethodGet, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)+"/", "", nil)
	if p.status != http.StatusOK || !strings.Contains(p.body, "<dt>mail</dt><dd>All may be &lt;lost&gt;.</dd>") || strings.Contains(p.body, "<dt>safe</dt>") {
		t.Errorf("%d: %s", p.status, p.body)
	}
}
