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

// transferFields are those of the result, which is a contract with scripts.
var transferFields = []string{"compensated", "completed", "money_created", "money_lost", "ok", "resolved", "stuck", "transfers", "unknown"}

// stormOverTransfers runs the demo and checks its result.
func stormOverTransfers(t *testing.T, ops int, db string) {
	t.Helper()
	o := run(t, "demo", "transfer", "--ops", strconv.Itoa(ops), "--json", "--db", db).want(t, 0)
	var r killstorm.TransfersReport
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	if got := memberNames(t, o.stdout); !slices.Equal(got, transferFields) {
		t.Errorf("fields %v, want %v", got, transferFields)
	}
	if !r.OK || r.Transfers != ops || r.Completed+r.Compensated != ops || r.Completed == 0 || r.Compensated == 0 || r.Stuck != 0 ||
		r.Unknown == 0 || r.Resolved != r.Unknown || r.MoneyLost != 0 || r.MoneyCreated != 0 {
		t.Errorf("%s", o.stdout)
	}
	if left := run(t, "keys", "list", "--state", "unknown", "--db", db).want(t, 0).stdout; left != "" {
		t.Errorf("what is left:\n%s", left)
	}
}

// TestDemoTransfer: two banks and the clearing house between them are killed, and money is neither lost nor created.
func TestDemoTransfer(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		testenv.Sample(t, 2)
		stormOverTransfers(t, 96, db)
	})
}

// TestDemoTransferShort is a short storm, on the database that everyone has.
func TestDemoTransferShort(t *testing.T) {
	t.Parallel()
	stormOverTransfers(t, killstorm.LeastTransfers, sqliteURL(t))
}

// TestDemoTransferSummary: a stranger is told what was killed, what was undone and where the money is.
func TestDemoTransferSummary(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	o := run(t, "demo", "transfer", "--ops", "48").want(t, 0)
	for _, want := range []string{
		"\nOK: no money is lost or created", "6  times one of 2 nodes of the first bank was killed", "3  times the second bank was killed",
		"3  times the clearing house was killed", "0  cents lost", "0  cents created", "counted 3 times",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
	if regexp.MustCompile(` 0 +deposits arrived after the request to undo`).MatchString(o.stdout) || !strings.Contains(o.stderr, "48/48 transfers") {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
}
