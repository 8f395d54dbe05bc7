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

// webhookFields are those of the result, which is a contract with scripts.
var webhookFields = []string{"applied", "deliveries", "disabled_endpoints", "duplicates_discarded", "healthy_p99_ms", "ok", "rejected", "sent"}

// stormOverWebhooks runs the demo and checks its result.
func stormOverWebhooks(t *testing.T, ops int, db string) {
	t.Helper()
	o := run(t, "demo", "webhooks", "--ops", strconv.Itoa(ops), "--json", "--db", db).want(t, 0)
	var r killstorm.WebhooksReport
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	if got := memberNames(t, o.stdout); !slices.Equal(got, webhookFields) {
		t.Errorf("fields %v, want %v", got, webhookFields)
	}
	if !r.OK || r.Sent != ops || r.Applied != ops || r.DuplicatesDiscarded == 0 || r.Deliveries < ops+1+r.DuplicatesDiscarded || r.Rejected != (ops+3)/4 || r.DisabledEndpoints != 1 {
		t.Errorf("%s", o.stdout)
	}
	if failing := run(t, "webhook", "endpoints", "--state", "disabled", "-o", "jsonl", "--db", db).want(t, 0).stdout; strings.Count(failing, "\n") != 1 || !strings.Contains(failing, `"gone"`) {
		t.Errorf("disabled:\n%s", failing)
	}
}

// TestDemoWebhooks: senders and the receiver are killed, beside endpoints that hang and fail, and each event is booked once.
func TestDemoWebhooks(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		testenv.Sample(t, 2)
		stormOverWebhooks(t, 60, db)
	})
}

// TestDemoWebhooksShort is a short storm, on the database that everyone has.
func TestDemoWebhooksShort(t *testing.T) {
	t.Parallel()
	stormOverWebhooks(t, killstorm.LeastWebhooks, sqliteURL(t))
}

// TestDemoWebhooksSummary: a stranger is told what was killed and what was booked; and of a receiver without signatures and inbox, what goes wrong.
func TestDemoWebhooksSummary(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	o := run(t, "demo", "webhooks", "--ops", "24").want(t, 0)
	for _, want := range []string{
		"\nOK: every event is booked exactly once", "6  times one of 2 nodes of the sender was killed", "3  times the receiver was killed", "6  forged requests rejected",
		"1  endpoint was disabled", "24  bookings of 24 refunds", "ms at the 99th percentile",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "24/24 refunds") {
		t.Errorf("%s", o.stderr)
	}
	next := regexp.MustCompile(`once (webhook endpoints .*)`).FindStringSubmatch(o.stdout)
	if next == nil {
		t.Fatalf("no line to run next:\n%s", o.stdout)
	}
	if o := run(t, strings.Fields(next[1])...).want(t, 0); strings.Count(o.stdout, "ep_") != 3 {
		t.Errorf("%s", o.stdout)
	}
	o = run(t, "demo", "webhooks", "--ops", "24", "--unsafe").want(t, 1)
	for _, want := range []string{"\nNOT OK", "refunds were booked more than once", " bookings of events that were not sent", "the receiver rejected 0 of 6 forged requests"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
}
