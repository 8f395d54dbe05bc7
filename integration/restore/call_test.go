package restore

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/store"
)

// provider is a service that others call, and that is not restored: it has one effect for each key.
type provider struct {
	*httptest.Server

	mu      sync.Mutex
	effects map[string][]string // keys, by what was asked
	calls   map[string]int
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{effects: map[string][]string{}, calls: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		name, key := string(asked), r.Header.Get("Idempotency-Key")
		if p.calls[name]++; !slices.Contains(p.effects[name], key) {
			p.effects[name] = append(p.effects[name], key)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// policies of the calls of operations, by their keys.
var policies = map[string]lease.CallPolicy{
	"open":  {DedupedFor: time.Hour},
	"late":  {DedupedFor: 5 * time.Second}, // the provider has forgotten the key, or may have
	"whole": {DedupedFor: time.Hour},       // begins after the backup
}

var errAnswerLost = errors.New("the answer is lost")

// charge runs an operation: a call, and then the end. With lost, the answer of the provider does not come.
func charge(ctx context.Context, db store.Operations, url, key string, lost bool) error {
	jobs := once.New(lease.New(db, lease.Config{}), once.Config{Observer: once.Discard})
	_, err := once.Do(ctx, jobs, once.Operation{Scope: "shop", Key: key}, func(ctx context.Context, run *lease.Run) (string, error) {
		return lease.Call(ctx, run, "charge", func(ctx context.Context, k string) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(key))
			if err != nil {
				return "", err
			}
			req.Header.Set("Idempotency-Key", k)
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				return "", err
			}
			_ = answer.Body.Close()
			if lost {
				if key == "late" {
					<-time.After(policies[key].DedupedFor) // until the provider may have forgotten the key
				}
				return "", errAnswerLost
			}
			return "charged", nil
		}, policies[key])
	})
	return err
}

// TestRestoredCalls: calls that were under way at the moment of the backup, and those of operations that it does not have, are made again under the
// keys that they had, so that a provider has one effect for each. A key that the provider may have forgotten is not used again: the operation is unknown.
func TestRestoredCalls(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		d := harness.Migrated(t, kind, migrations)
		service := newProvider(t)
		try := func(key string, lost bool) (err error) {
			must(t, d.Use(t.Context(),
				func(s harness.Store[pgx.Tx]) error { err = charge(t.Context(), s, service.URL, key, lost); return nil },
				func(s harness.Store[*sql.Tx]) error { err = charge(t.Context(), s, service.URL, key, lost); return nil }))
			return err
		}
		for _, key := range []string{"open", "late"} {
			if err := try(key, true); err == nil {
				t.Errorf("%s: an answer that is lost is one", key)
			}
		}
		p := &pair{T: t}
		moment := p.now(d)
		restore := backup(t, d)
		harness.Until(t, func() error { return try("open", false) })
		must(t, try("whole", false))
		restore()

		if f := examine(t, d, moment)["restore_calls"]; f.Verdict != doctor.VerdictWarn || !slices.Contains(f.First, "shop open") || slices.Contains(f.First, "shop whole") {
			t.Errorf("%+v", f)
		}
		harness.Until(t, func() error { return try("open", false) })
		must(t, try("whole", false))
		if err := try("late", false); once.CodeOf(err) != once.CodeUnknown && once.CodeOf(err) != once.CodeInFlight {
			t.Errorf("a key that the provider may have forgotten: %v", err)
		}
		service.mu.Lock()
		defer service.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(service.effects)) {
			if keys := service.effects[name]; len(keys) != 1 {
				t.Errorf("%s has taken effect under %d keys: %v", name, len(keys), keys)
			}
		}
		if want := map[string]int{"open": 3, "late": 1, "whole": 2}; !maps.Equal(service.calls, want) {
			t.Errorf("calls: %v, want %v", service.calls, want)
		}
	})
}
