package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/internal/testenv"
)

// eventFields are those of the result, which is a contract with scripts.
var eventFields = []string{
	"applied", "broker_kills", "dead_lettered", "deliveries", "duplicate_deliveries", "duplicates_discarded", "events", "lost", "ok",
	"out_of_order", "parked", "receiver_kills", "redriven", "relay_kills", "service_kills", "stale_ignored",
}

func memberNames(t *testing.T, object string) []string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(members))
}

// stormOverEvents runs the demo and checks its result and its files.
func stormOverEvents(t *testing.T, ops int, db string) {
	t.Helper()
	dir := t.TempDir()
	o := run(t, "demo", "events", "--ops", strconv.Itoa(ops), "--json", "--db", db, "--log", dir).want(t, 0)
	var r killstorm.EventsReport
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	if got := memberNames(t, o.stdout); !slices.Equal(got, eventFields) {
		t.Errorf("fields %v, want %v", got, eventFields)
	}
	// Every fourth refund is voided, of 8 charges.
	if !r.OK || r.Events != ops+ops/4+8 || r.Lost+r.OutOfOrder != 0 || r.Deliveries != r.Events+r.DuplicateDeliveries {
		t.Errorf("%s", o.stdout)
	}
	if r.Applied != r.Events || r.DuplicatesDiscarded == 0 || r.Parked == 0 || r.StaleIgnored == 0 || r.DeadLettered != 1 || r.Redriven != 1 || r.ReceiverKills != 3 {
		t.Errorf("the receiver: %s", o.stdout)
	}
	if left := run(t, "outbox", "list", "--db", db).want(t, 0).stdout; left != "" {
		t.Errorf("what is left:\n%s", left)
	}
	checkInboxFile(t, filepath.Join(dir, "inbox.csv"), r)
	checkReceiverLog(t, filepath.Join(dir, "receiver.log"), r)
}

// checkInboxFile: each event has one line "ok", and each delivery that was discarded a line "replayed".
func checkInboxFile(t *testing.T, path string, r killstorm.EventsReport) {
	t.Helper()
	checkMode(t, path)
	booked, replayed := map[string]bool{}, 0
	for _, row := range readCSV(t, path, "event_id,source,first_seen,processed,result") {
		event, source, first, processed := row[0], row[1], row[2], row[3]
		if source != "/payments" || first == "" || first > processed {
			t.Errorf("%v", row)
		}
		switch result := row[4]; {
		case result == "ok" && !booked[event]:
			booked[event] = true
		case result == "replayed" && booked[event]:
			replayed++
		default:
			t.Errorf("%v", row)
		}
	}
	if len(booked) != r.Events || replayed != r.DuplicatesDiscarded {
		t.Errorf("%d events, %d deliveries replayed, want %d and %d", len(booked), replayed, r.Events, r.DuplicatesDiscarded)
	}
}

// checkReceiverLog: what the receiver has done with an event can be found by the event, and by the trace of its request.
func checkReceiverLog(t *testing.T, path string, r killstorm.EventsReport) {
	t.Helper()
	checkMode(t, path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	transitions, traces := map[string]int{}, map[string]bool{}
	for line := range strings.Lines(string(b)) {
		var l struct {
			Message     string `json:"msg"`
			Consumer    string `json:"consumer"`
			Event       string `json:"event_id"`
			From        string `json:"from_state"`
			To          string `json:"to_state"`
			Correlation string `json:"correlation_id"`
		}
		if json.Unmarshal([]byte(line), &l) != nil || !strings.HasPrefix(l.Message, "inbox: ") || l.Event == "" { // torn, or of another part
			continue
		}
		if l.From == "" || l.To == "" || len(l.Correlation) != 32 {
			t.Errorf("%s", line)
		}
		transitions[l.Consumer+": "+l.From+" to "+l.To]++
		traces[l.Correlation] = true
	}
	for _, want := range []string{"bookings: new to applied", "bookings: new to parked", "bookings: parked to applied", "latest: new to applied"} {
		if transitions[want] == 0 {
			t.Errorf("no %q in %v", want, transitions)
		}
	}
	if len(traces) != r.Events {
		t.Errorf("%d traces of %d requests", len(traces), r.Events)
	}
}

func checkMode(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: %v, %v", path, info, err)
	}
}

// TestDemoEvents: relays, the broker, the service and the receiver are killed, and no event is lost, out of order or
// booked twice.
func TestDemoEvents(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) { stormOverEvents(t, 120, db) })
}

// TestDemoEventsShort is a short storm, on the database that everyone has.
func TestDemoEventsShort(t *testing.T) {
	t.Parallel()
	stormOverEvents(t, 24, sqliteURL(t))
}

// TestDemoEventsSummary: a stranger is told what was killed, what has arrived and what was booked.
func TestDemoEventsSummary(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	o := run(t, "demo", "events", "--ops", "12").want(t, 0)
	for _, want := range []string{
		"\nOK: every committed event has arrived, and is booked exactly once", "23  events of 16 keys", "23  events booked exactly once", "1  dead letters were applied after the repair of the receiver",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %s", want, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "12/12 refunds") {
		t.Errorf("%s", o.stderr)
	}
	next := regexp.MustCompile(`once (deadletter list .*)`).FindStringSubmatch(o.stdout)
	if next == nil {
		t.Fatalf("no line to run next:\n%s", o.stdout)
	}
	if o := run(t, strings.Fields(next[1])...).want(t, 0); !strings.Contains(o.stdout, "cannot book a refund of 1003") {
		t.Errorf("%s", o.stdout)
	}
}
