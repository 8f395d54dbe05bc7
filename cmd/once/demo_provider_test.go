package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/internal/testenv"
)

// providerFields are those of the result, which is a contract with scripts.
var providerFields = []string{
	"calls", "deduped", "double_charges", "ok", "provider_kills", "refused", "resolved", "resolved_by_check", "resolved_by_operator", "service_kills", "unknown",
}

// stormOverProviders runs the demo and checks its result.
func stormOverProviders(t *testing.T, ops int, db string) {
	t.Helper()
	o := run(t, "demo", "provider", "--ops", strconv.Itoa(ops), "--json", "--db", db).want(t, 0)
	var r killstorm.ProvidersReport
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	if got := memberNames(t, o.stdout); !slices.Equal(got, providerFields) {
		t.Errorf("fields %v, want %v", got, providerFields)
	}
	if !r.OK || r.DoubleCharges != 0 || r.Resolved != r.Unknown || r.ResolvedByCheck == 0 || r.ResolvedByOperator == 0 || r.ResolvedByCheck+r.ResolvedByOperator != r.Resolved ||
		r.Calls < ops || r.ProviderKills != 6 || r.ServiceKills != 6 {
		t.Errorf("%s", o.stdout)
	}
	if left := run(t, "keys", "list", "--state", "unknown", "--db", db).want(t, 0).stdout; left != "" {
		t.Errorf("what is left:\n%s", left)
	}
	if audit := run(t, "audit", "list", "--limit", "1000", "--db", db).want(t, 0).stdout; strings.Count(audit, "resolve") != r.ResolvedByOperator {
		t.Errorf("%d decisions, and the audit says\n%s", r.ResolvedByOperator, audit)
	}
}

// TestDemoProvider: a service and its providers are killed, and no order is charged twice.
func TestDemoProvider(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		testenv.Sample(t, 2)
		stormOverProviders(t, 36, db)
	})
}

// TestDemoProviderShort is a short storm, on the database that everyone has.
func TestDemoProviderShort(t *testing.T) {
	t.Parallel()
	stormOverProviders(t, 36, sqliteURL(t))
}

// TestDemoProviderSummary: a stranger is told what was killed, what was unknown and who was charged.
func TestDemoProviderSummary(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	o := run(t, "demo", "provider", "--ops", "36").want(t, 0)
	for _, want := range []string{"\nOK: no order is charged twice, and every unknown outcome was resolved", "6  times a provider was killed", " for 36 orders", "0  orders charged twice"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "36/36 orders") {
		t.Errorf("%s", o.stderr)
	}
	next := regexp.MustCompile(`once (audit list .*)`).FindStringSubmatch(o.stdout)
	if next == nil {
		t.Fatalf("no line to run next:\n%s", o.stdout)
	}
	if o := run(t, strings.Fields(next[1])...).want(t, 0); !strings.Contains(o.stdout, "operator of the demo") {
		t.Errorf("%s", o.stdout)
	}
}
