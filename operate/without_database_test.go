package operate

// The tests with databases are in integration/operate: "make test-of DIR=operate" runs them after these.

import (
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// ofDialect is a database that is asked for its dialect, and for nothing else.
type ofDialect struct {
	sqlplane.Database

	name sqlplane.Dialect
}

// Dialect implements [sqlplane.Database].
func (d ofDialect) Dialect() sqlplane.Dialect { return d.name }

// TestKeyFilterIsACondition: each filter is one condition on each database, its arguments are as many as its places, and the states that have an index
// name it.
func TestKeyFilterIsACondition(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, d := range []sqlplane.Dialect{sqlplane.PostgreSQL, sqlplane.MySQL, sqlplane.SQLite} {
		keys := NewKeys(ofDialect{name: d})
		for state := range states {
			f := KeyFilter{
				State: state, Scope: "acme POST /refunds", ScopePrefix: "acme ", Name: "POST /refunds", Since: at, Before: at.Add(time.Hour),
				Window: Window{After: cursor{"acme", "k"}.String()},
			}
			in, err := keys.within(f)
			if err != nil {
				t.Fatal(err)
			}
			in.until(d, cursor{"b", "k"})
			c, err := keys.where(f, in)
			if err != nil || strings.Count(c.text, "?") != len(c.args) || !strings.Contains(c.text, states[state]) {
				t.Errorf("%s, %q: %q with %d arguments, %v", d, state, c.text, len(c.args), err)
			}
			if indexed := state == "running" || state == "waiting" || state == "unknown"; (c.index != "") != (indexed && d != sqlplane.PostgreSQL) {
				t.Errorf("%s, %q: index %q", d, state, c.index)
			}
		}
		if _, err := keys.where(KeyFilter{State: "lost"}, conditions{}); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", d, err)
		}
		if _, err := keys.within(KeyFilter{Window: Window{After: "!"}}); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// TestConsumerIsPrintable: a name that no inbox can have is refused with what to do.
func TestConsumerIsPrintable(t *testing.T) {
	t.Parallel()
	if err := checkConsumer("billing"); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "a\nb", "\xff", strings.Repeat("x", 65)} {
		if err := checkConsumer(wrong); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%.10q: %v", wrong, err)
		}
	}
}

// TestEffectOfAResult: an operation says whether its writes stayed only where this was recorded.
func TestEffectOfAResult(t *testing.T) {
	t.Parallel()
	forgotten := store.Result{Kind: store.ResultValue}
	if err := head.Decode(head.Forgotten(), &forgotten); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		result store.Result
		want   string
	}{
		"a value":             {store.Result{Kind: store.ResultValue, Status: 201}, "applied"},
		"a refusal, marked":   {store.Result{Kind: store.ResultValue, Status: 422, RolledBack: true}, "not applied"},
		"a refusal, unmarked": {store.Result{Kind: store.ResultValue, Status: 422}, ""},
		"a failure":           {store.Result{Kind: store.ResultFailure}, ""},
		"omitted":             {store.Result{Kind: store.ResultOmitted}, "applied"},
		"forgotten":           {forgotten, ""},
	} {
		if got := effectOf(c.result); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for kind, want := range map[store.ResultKind]string{store.ResultValue: "value", store.ResultFailure: "failure", store.ResultOmitted: "omitted", 99: "omitted"} {
		if got := resultOf(kind); got != want {
			t.Errorf("%d is %q", kind, got)
		}
	}
	if got := fingerprintOf([]byte{1, 0xab, 2}) + "," + fingerprintOf(nil); got != "v1 ab02," {
		t.Error(got)
	}
}

// TestMeaningOfEachState: what a person who was woken up reads says who goes on, and who must decide.
func TestMeaningOfEachState(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later, before := now.Add(time.Minute), now.Add(-time.Minute)
	inCall := lease.Progress{CallID: "c"}
	for name, c := range map[string]struct {
		op       Operation
		progress lease.Progress
		want     string
	}{
		"at work":                   {Operation{State: "running", LeaseUntil: &later}, inCall, "a process is executing the operation"},
		"atomic, at work":           {Operation{State: "running"}, lease.Progress{}, "a process is executing the operation"},
		"its lease is over":         {Operation{State: "running", LeaseUntil: &before}, lease.Progress{}, "the next retry or a completer continues"},
		"its lease is over inside":  {Operation{State: "running", LeaseUntil: &before}, inCall, "an operator must decide"},
		"it waits":                  {Operation{State: "waiting"}, lease.Progress{}, "the next retry or a completer continues"},
		"it waits inside":           {Operation{State: "waiting"}, inCall, "must decide"},
		"unknown":                   {Operation{State: "unknown"}, inCall, "a call to another service may have taken effect"},
		"unknown, and can be asked": {Operation{State: "unknown"}, lease.Progress{CallID: "c", Call: &lease.Begun{Checked: true}}, "the next retry or a completer asks the other service"},
		"expired":                   {Operation{State: StateExpired, Effect: "applied"}, lease.Progress{}, "the operation took effect one time, but its retention has ended"},
		"archived":                  {Operation{State: "archived", Effect: "applied"}, lease.Progress{}, "its row was deleted"},
		"done":                      {Operation{State: "done", Effect: "applied", Result: "value"}, lease.Progress{}, "a retry gets the stored answer"},
		"rolled back":               {Operation{State: "done", Effect: "not applied", Result: "value"}, lease.Progress{}, "its writes were rolled back"},
		"omitted":                   {Operation{State: "done", Effect: "applied", Result: "omitted"}, lease.Progress{}, "no longer has its answer"},
		"not recorded":              {Operation{State: "done", Result: "failure"}, lease.Progress{}, "the database does not show whether"},
	} {
		c.op.Now = now
		if got := c.op.Meaning(c.progress); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestEventHasTheStateThatNeedsAPerson: of several deliveries the one that needs a person most decides, and their failures are counted together. An event of
// an outbox keeps its state.
func TestEventHasTheStateThatNeedsAPerson(t *testing.T) {
	t.Parallel()
	delivered := SentDelivery{"a", Delivery{State: string(webhook.DeliveryDelivered)}}
	waits := SentDelivery{"b", Delivery{State: string(webhook.DeliveryWaiting)}}
	fails := SentDelivery{"c", Delivery{State: string(webhook.DeliveryWaiting), Failures: 2}}
	stopped := SentDelivery{"d", Delivery{State: string(webhook.DeliveryStopped), Failures: 5}}
	for name, c := range map[string]struct {
		deliveries []SentDelivery
		want       string
		attempts   int
	}{
		"no endpoint": {nil, EventUnwanted, 0},
		"delivered":   {[]SentDelivery{delivered}, EventDelivered, 0},
		"one waits":   {[]SentDelivery{waits, delivered}, EventWaiting, 0},
		"one fails":   {[]SentDelivery{fails, waits, delivered}, EventFailing, 2},
		"one is dead": {[]SentDelivery{delivered, stopped, fails}, EventDead, 7},
	} {
		s := &sent{Sent: Sent{Deliveries: c.deliveries}, typ: "refund.made"}
		e := Event{State: EventGone}
		if s.addTo(&e); e.State != c.want || e.Attempts != c.attempts || e.Type != "refund.made" || e.Sent == nil {
			t.Errorf("%s: %+v", name, e)
		}
		e = Event{State: EventWaiting, Type: "of the outbox"}
		if s.addTo(&e); e.State != EventWaiting || e.Type != "of the outbox" || e.Sent == nil {
			t.Errorf("%s, in an outbox: %+v", name, e)
		}
	}
}
