package killstorm

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // driver "sqlite"
)

// TestArrivalsLostLateOrRepeatedAreCounted: what is lost, repeated, out of order or made up is counted.
func TestArrivalsLostLateOrRepeatedAreCounted(t *testing.T) {
	t.Parallel()
	type arrival struct {
		event string
		seq   int64
	}
	wanted := map[string]bool{"a": true, "b": true, "c": true}
	for name, c := range map[string]struct {
		arrivals         []arrival
		lost, late, more int
		reason           string
	}{
		"all":            {[]arrival{{"a", 1}, {"b", 2}, {"c", 3}}, 0, 0, 0, ""},
		"again":          {[]arrival{{"a", 1}, {"b", 2}, {"a", 1}, {"b", 2}, {"c", 3}}, 0, 0, 2, ""},
		"lost":           {[]arrival{{"a", 1}, {"b", 2}}, 1, 0, 0, "1 events lost"},
		"lost between":   {[]arrival{{"a", 1}, {"c", 3}}, 1, 1, 0, "1 events lost"},
		"out of order":   {[]arrival{{"a", 1}, {"c", 3}, {"b", 2}}, 0, 2, 0, "2 events out of order"},
		"not committed":  {[]arrival{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}}, 0, 0, 0, "not committed"},
		"nothing at all": {nil, 3, 0, 0, "3 events lost"},
	} {
		s := calm(EventsConfig{Orders: 3})
		for _, a := range c.arrivals {
			s.consumer.got.add(a.event, "key", a.seq)
		}
		r := s.report(wanted, received{deadLettered: 1, redriven: 1})
		if r.Lost != c.lost || r.OutOfOrder != c.late || r.DuplicateDeliveries != c.more || r.OK != (c.reason == "") || !strings.Contains(strings.Join(r.Reasons, ", "), c.reason) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// calm is a storm without kills, of which nothing has arrived. The receiver has discarded a duplicate.
func calm(cfg EventsConfig) *Events {
	s := &Events{EventsConfig: cfg, consumer: &consumer{got: newArrivals()}, forwarder: &forwarder{}, told: newTold(), frame: frame{kills: map[*Server]int{}}}
	s.told.discarded = []discard{{event: "a"}}
	return s
}

// TestEventsReport: whatever the receiver has done wrong is said, and so is what the storm has missed.
func TestEventsReport(t *testing.T) {
	t.Parallel()
	relay, broker, service, receiver := &Server{}, &Server{}, &Server{}, &Server{}
	for name, c := range map[string]struct {
		spoil  func(s *Events, got *received)
		reason string
	}{
		"good":         {func(*Events, *received) {}, ""},
		"twice":        {func(_ *Events, got *received) { got.twice = 1 }, "1 events booked again"},
		"missing":      {func(_ *Events, got *received) { got.missing = 2 }, "2 events not booked"},
		"late":         {func(_ *Events, got *received) { got.late = 1 }, "1 events booked out of order"},
		"phantom":      {func(_ *Events, got *received) { got.phantoms = 1 }, "1 bookings of transactions that were not committed"},
		"balance":      {func(_ *Events, got *received) { got.unbalanced = 1 }, "1 charges whose bookings"},
		"outdated":     {func(_ *Events, got *received) { got.outdated = 1 }, "1 charges whose newest event"},
		"still dead":   {func(_ *Events, got *received) { got.redriven = 0 }, "1 dead letters that were not applied"},
		"no letter":    {func(_ *Events, got *received) { got.deadLettered, got.redriven = 0, 0 }, "this run proves nothing: 0 dead letters"},
		"no duplicate": {func(s *Events, _ *received) { s.told.discarded = nil }, "this run proves nothing: 0 duplicates"},
		"in order":     {func(s *Events, _ *received) { s.forwarder.reordered = 0 }, "this run proves nothing: 0 deliveries out of order"},
		"not parked":   {func(s *Events, _ *received) { s.told.parked = nil }, "this run proves nothing: 0 events parked"},
		"nothing old":  {func(s *Events, _ *received) { s.told.outcomes = nil }, "this run proves nothing: 0 old versions"},
		"relays live":  {func(s *Events, _ *received) { s.kills[relay] = 0 }, "this run proves nothing: 0 kills of relays"},
		"broker lives": {func(s *Events, _ *received) { s.kills[broker] = 0 }, "this run proves nothing: 0 kills of the broker"},
		"it lives":     {func(s *Events, _ *received) { s.kills[service] = 0 }, "this run proves nothing: 0 kills of the service"},
		"never killed": {func(s *Events, _ *received) { s.kills[receiver] = 0 }, "this run proves nothing: 0 kills of the receiver"},
	} {
		s := calm(EventsConfig{Orders: 9, Kills: 1, Service: service, Broker: broker, Receiver: receiver, Relays: []*Server{relay}})
		s.kills = map[*Server]int{relay: 1, broker: 1, service: 1, receiver: 1}
		s.forwarder.reordered = 1
		s.told.parked["b"] = true
		s.told.outcomes[outcome{latestConsumer, "stale"}] = 1
		wanted := map[string]bool{}
		for i := range int64(9) {
			event := string('a' + rune(i))
			wanted[event] = true
			s.consumer.got.add(event, "key", i+1)
		}
		got := received{applied: applied{rows: 9}, deadLettered: 1, redriven: 1}
		c.spoil(s, &got)
		r := s.report(wanted, got)
		if r.OK != (c.reason == "") || c.reason != "" && (len(r.Reasons) != 1 || !strings.HasPrefix(r.Reasons[0], c.reason)) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestCheckBookings: bookings that are missing, doubled, made up or out of order are counted.
func TestCheckBookings(t *testing.T) {
	t.Parallel()
	row := func(event string, place, seq int64) booking {
		return booking{event: event, key: "key", place: place, seq: seq}
	}
	wanted := map[string]bool{"a": true, "b": true, "c": true}
	for name, c := range map[string]struct {
		rows []booking
		want applied
	}{
		"all":          {[]booking{row("a", 1, 1), row("b", 2, 2), row("c", 3, 3)}, applied{rows: 3}},
		"none":         {nil, applied{missing: 3}},
		"missing":      {[]booking{row("a", 1, 1), row("b", 2, 2)}, applied{rows: 2, missing: 1}},
		"gap":          {[]booking{row("a", 1, 1), row("c", 2, 3)}, applied{rows: 2, missing: 1, late: 1}},
		"twice":        {[]booking{row("a", 1, 1), row("b", 2, 2), row("b", 3, 2), row("c", 4, 3)}, applied{rows: 4, twice: 1, late: 1}},
		"out of order": {[]booking{row("b", 1, 2), row("a", 2, 1), row("c", 3, 3)}, applied{rows: 3, late: 2}},
		"made up":      {[]booking{row("a", 1, 1), row("b", 2, 2), row("c", 3, 3), row("d", 4, 4)}, applied{rows: 4, phantoms: 1}},
		"same place":   {[]booking{row("a", 1, 1), row("b", 1, 2), row("c", 2, 3)}, applied{rows: 3, late: 2}},
	} {
		if got := check(c.rows, wanted); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestReceiverLogIsCounted: what a receiver has logged is counted, also behind a line that its death has torn.
func TestReceiverLogIsCounted(t *testing.T) {
	t.Parallel()
	told := newTold()
	line := func(second int, word, consumer, event string) string {
		return fmt.Sprintf(`{"time":"2026-01-02T03:04:%02d.5Z","msg":"inbox: %s","consumer":%q,"event_id":%q,"source":"/payments"}`+"\n", second, word, consumer, event)
	}
	text := "database sqlite:x\n" + line(1, "parked", bookingsConsumer, "b") + line(2, "applied", bookingsConsumer, "a") + `{"time":"2026-01-02T03:04:03.5Z","msg":"inb` +
		line(4, "applied", bookingsConsumer, "b") + line(5, "duplicate", bookingsConsumer, "a") + line(6, "stale", latestConsumer, "a") + line(7, "duplicate", latestConsumer, "a") +
		`{"time":"2026-01-02T03:04:08Z","msg":"other","event_id":"c"}` + "\n"
	for _, b := range []byte(text) { // writes have no regard for lines
		if _, err := told.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if n := told.count(bookingsConsumer, "applied"); n != 2 || told.count(latestConsumer, "stale") != 1 || len(told.parked) != 1 || !told.parked["b"] || told.messages.value() != 6 {
		t.Errorf("%+v", told)
	}
	if want := []discard{{"a", "/payments", "2026-01-02T03:04:05.500000Z"}}; !slices.Equal(told.discarded, want) {
		t.Errorf("%v", told.discarded)
	}
	if told.firstSeen["a"] != "2026-01-02T03:04:02.500000Z" || told.firstSeen["b"] != "2026-01-02T03:04:01.500000Z" {
		t.Errorf("%v", told.firstSeen)
	}
}

// TestWitnessOfBookings: the database itself tells what is wrong.
func TestWitnessOfBookings(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "witness.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	run := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	run("create table charge (tenant, id, refunded)")
	run("create table booking (tenant, charge_id, topic, place, seq, event_id, source, event_type, subject, amount, booked_at)")
	run("create table latest_refund (tenant, charge_id, seq, event_type, subject)")
	run("create table once_inbox_parked (event_id)")
	run("insert into charge values ('acme', 'c', 5), ('acme', 'empty', 0), ('other', 'c', 7)")
	run(`insert into booking values ('acme', 'c', 'charges', 1, 1, 'e1', '/payments', 'charge.succeeded', 'c', 100, 't1'),
		('acme', 'c', 'refunds', 2, 2, 'e3', '/payments', 'refund.succeeded', 'r2', 5, 't3'), ('acme', 'c', 'refunds', 1, 1, 'e2', '/payments', 'refund.succeeded', 'r1', 9, 't2'),
		('acme', 'c', 'refunds', 3, 3, 'e4', '/payments', 'refund.voided', 'r1', 9, 't4')`)
	run("insert into latest_refund values ('acme', 'c', 3, 'refund.voided', 'r1')")
	run("insert into once_inbox_parked values ('e9')")
	w := Witness{DB: db}
	ctx := t.Context()
	list, err := w.bookings(ctx, "acme")
	if err != nil || len(list) != 4 || list[2] != (booking{"refund.succeeded r2", "e3", "/payments", "refunds c", 2, 2, "t3"}) {
		t.Errorf("%+v, %v", list, err)
	}
	want := func(name string, count func(context.Context, string) (int, error), n int) {
		t.Helper()
		if got, err := count(ctx, "acme"); got != n || err != nil {
			t.Errorf("%s: %d, %v, want %d", name, got, err, n)
		}
	}
	want("booked", w.booked, 4)
	want("unbalanced", w.unbalanced, 0)
	want("outdated", w.outdated, 0)
	for event, is := range map[string]bool{"e9": true, "e1": false} {
		if got, err := w.parked(ctx, event); got != is || err != nil {
			t.Errorf("%s is parked: %v, %v", event, got, err)
		}
	}
	run("update charge set refunded = 14 where tenant = 'acme' and id = 'c'")
	want("unbalanced", w.unbalanced, 1)
	for _, change := range []string{"seq = 2", "event_type = 'refund.succeeded'", "subject = 'r2'"} {
		run("update latest_refund set " + change)
		want("outdated: "+change, w.outdated, 1)
		run("update latest_refund set seq = 3, event_type = 'refund.voided', subject = 'r1'")
	}
	run("delete from latest_refund")
	want("outdated", w.outdated, 1)
}
