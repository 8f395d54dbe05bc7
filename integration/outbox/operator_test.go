package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// failed has the message with an ID fail as a relay does. next is NOW or null.
func (g *fixture[TX]) failed(t *testing.T, id, next string, args ...any) {
	t.Helper()
	n := g.exec(t, "insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error) select part, id, topic, KEY, 3, "+next+", NOW, 'no' from once_outbox where event_id = ?", append(args, id)...)
	if n != 1 {
		t.Errorf("%d rows have failed, want 1", n)
	}
}

// delivered marks a message as a relay does that keeps it.
func (g *fixture[TX]) delivered(t *testing.T, id string) {
	t.Helper()
	const columns = "part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, op_scope, op_key, created_at"
	g.exec(t, "insert into once_outbox_sent ("+columns+", sent_at) select "+columns+", NOW from once_outbox where event_id = ?", id)
	g.exec(t, "delete from once_outbox where event_id = ?", id)
}

func withID(m message.Message) (_ message.Message, id string) {
	m.ID = once.NewKey()
	return m, m.ID
}

// TestListAndShow: a message is shown as it was added, and where it stands.
func TestListAndShow(t *testing.T) {
	testenv.Both(t)
	on(t, testListAndShow[pgx.Tx], testListAndShow[*sql.Tx])
}

func testListAndShow[TX any](t *testing.T, g *fixture[TX]) {
	first, firstID := withID(message.Message{
		Topic: "a", Key: "Zürich", Type: "t", Source: "/s", Payload: []byte{0, 1, 255}, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Headers: map[string]string{"Content-Type": "text/plain; charset=\"utf-8\"", "x-name": "<é>"},
	})
	stopped, stoppedID := withID(event("a", "", "t"))
	failing, failingID := withID(event("b", "k", "t"))
	sent, sentID := withID(event("a", "k", "t"))
	blocked, blockedID := withID(event("b", "k", "t"))
	for _, m := range []message.Message{first, stopped, failing, blocked, sent} {
		g.mustAdd(t, m)
	}
	g.failed(t, failingID, "NOW")
	g.failed(t, stoppedID, "null")
	g.delivered(t, sentID)
	must(t, g.box.Pause(t.Context(), "b", "", "why not"))

	e, err := g.box.Show(t.Context(), strings.ToUpper(firstID))
	must(t, err)
	if age := time.Since(e.CreatedAt); age.Abs() > 10*time.Minute {
		t.Errorf("added at %v", e.CreatedAt)
	}
	if e.OpScope != "outbox" || (&e.Message).KeyHash() != once.KeyHash(e.OpKey) {
		t.Errorf("it names the operation %q, %q, and the hash %q", e.OpScope, e.OpKey, (&e.Message).KeyHash())
	}
	e.CreatedAt, e.OpScope, e.OpKey = time.Time{}, "", ""
	delete(e.Headers, message.HeaderKeyHash)
	want := fmt.Sprintf("{{%s /s a Zürich 1 t [0 1 255] map[content-type:text/plain; charset=\"utf-8\" x-name:<é>] %s %v 0} waiting false false 3   0 %v  %v %v}",
		firstID, first.Trace, time.Time{}, time.Time{}, time.Time{}, time.Time{})
	if got := fmt.Sprintf("%v", e); got != want {
		t.Errorf("shown as\n%s\nwant\n%s", got, want)
	}
	for id, want := range map[string]string{
		stoppedID: "stopped false 3 no true false", failingID: "failing true 3 no false false", blockedID: "blocked true 0  true false", sentID: "delivered false 0  true true",
	} {
		e, err := g.box.Show(t.Context(), id)
		must(t, err)
		if got := fmt.Sprintf("%s %v %d %s %v %v", e.State, e.Paused, e.Attempts, e.Error, e.NextAt.IsZero(), !e.SentAt.IsZero()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, id := range []string{once.NewKey(), "", "x' or 1 = 1"} {
		if _, err := g.box.Show(t.Context(), id); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, c := range []struct {
		filter outbox.Filter
		want   []string
	}{
		{outbox.Filter{}, []string{firstID, stoppedID, failingID, blockedID}},
		{outbox.Filter{Limit: 1}, []string{firstID, stoppedID, failingID, blockedID}},
		{outbox.Filter{State: outbox.StateWaiting}, []string{firstID}},
		{outbox.Filter{State: outbox.StateBlocked}, []string{blockedID}},
		{outbox.Filter{State: outbox.StateFailing}, []string{failingID}},
		{outbox.Filter{State: outbox.StateStopped}, []string{stoppedID}},
		{outbox.Filter{State: outbox.StateDelivered}, []string{sentID}},
		{outbox.Filter{Topic: "a", Limit: 1}, []string{firstID, stoppedID}},
		{outbox.Filter{Topic: "b", Key: "k"}, []string{failingID, blockedID}},
		{outbox.Filter{Topic: "b", Key: "other"}, nil},
	} {
		var got []string
		for {
			list, next, err := g.box.List(t.Context(), c.filter)
			must(t, err)
			for _, e := range list {
				if e.Payload != nil || e.Headers != nil {
					t.Error("a list has payloads or headers")
				}
				got = append(got, e.ID)
			}
			if next == 0 {
				break
			}
			c.filter.After = next
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
		}
	}
	for _, f := range []outbox.Filter{{State: "lost"}, {Key: "k"}} {
		if _, _, err := g.box.List(t.Context(), f); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// TestPauseAndResume: of a topic or a key; to resume has messages tried again that have failed, and no others.
func TestPauseAndResume(t *testing.T) {
	testenv.Both(t)
	on(t, testPauseAndResume[pgx.Tx], testPauseAndResume[*sql.Tx])
}

func testPauseAndResume[TX any](t *testing.T, g *fixture[TX]) {
	ids := map[string]string{}
	for _, where := range []string{"a k", "a l", "a ", "b k"} {
		topic, key, _ := strings.Cut(where, " ")
		m, id := withID(event(topic, key, "t"))
		ids[where] = id
		g.mustAdd(t, m)
		g.failed(t, id, "null")
	}
	failing, failingID := withID(event("a", "m", "t"))
	g.mustAdd(t, failing)
	g.failed(t, failingID, "AGO(?)", -time.Hour.Microseconds())
	paused := func() (list []string) {
		all, err := g.box.Paused(t.Context())
		must(t, err)
		for _, p := range all {
			if age := time.Since(p.PausedAt); age.Abs() > 10*time.Minute {
				t.Errorf("paused at %v", p.PausedAt)
			}
			list = append(list, p.Topic+"/"+p.Key+": "+p.Reason)
		}
		return list
	}
	must(t, g.box.Pause(t.Context(), "a", "", "first"))
	must(t, g.box.Pause(t.Context(), "a", "", "second"))
	must(t, g.box.Pause(t.Context(), "a", "k", "third"))
	if got := strings.Join(paused(), ", "); got != "a/: second, a/k: third" {
		t.Error(got)
	}
	resume := func(topic, key string, want outbox.Resumed) {
		t.Helper()
		if n, err := g.box.Resume(t.Context(), topic, key); err != nil || n != want {
			t.Errorf("Resume(%s, %s): %+v, %v, want %+v", topic, key, n, err, want)
		}
	}
	state := func(id string) string {
		e, err := g.box.Show(t.Context(), id)
		must(t, err)
		return fmt.Sprintf("%s %d", e.State, e.Attempts)
	}
	resume("a", "k", outbox.Resumed{Paused: true, Messages: 1})
	if a, b := state(ids["a k"]), state(ids["a l"]); a != "failing 0" || b != "stopped 3" {
		t.Error(a, b)
	}
	if got := strings.Join(paused(), ", "); got != "a/: second" {
		t.Error(got)
	}
	resume("a", "", outbox.Resumed{Paused: true, Messages: 4})
	for id, want := range map[string]string{ids["a l"]: "failing 0", ids["a "]: "failing 0", ids["b k"]: "stopped 3", failingID: "failing 0"} {
		if got := state(id); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	resume("c", "", outbox.Resumed{})
	for _, err := range []error{
		g.box.Pause(t.Context(), "", "k", "r"), g.box.Pause(t.Context(), "a", "", ""), g.box.Pause(t.Context(), "a", "", "a\nb"),
		g.box.Pause(t.Context(), strings.Repeat("t", 256), "", "r"), func() error { _, err := g.box.Resume(t.Context(), "", ""); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Error(err)
		}
	}
}

// TestSkipLeavesAMarker: a marker takes the place of a message, with its number. What was delivered cannot be skipped.
func TestSkipLeavesAMarker(t *testing.T) {
	testenv.Both(t)
	on(t, testSkip[pgx.Tx], testSkip[*sql.Tx])
}

func testSkip[TX any](t *testing.T, g *fixture[TX]) {
	key := make([]byte, 32)
	encrypter, err := once.NewEncrypter(key)
	must(t, err)
	encrypted := outbox.New[TX](g.store, outbox.Config{Encrypter: encrypter})
	for _, box := range []*outbox.Box[TX]{g.box, encrypted} {
		m, id := withID(event("a", "k", "t"))
		m.Headers = map[string]string{"secret": "s"}
		must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error { return box.Add(ctx, tx, m, event("a", "k", "next")) }))
		before, err := box.Show(t.Context(), id)
		must(t, err)
		g.failed(t, id, "null")
		for range 2 { // the second time is that of a caller whose answer was lost
			must(t, box.Skip(t.Context(), id, "customer 42 <é> is gone"))
			e, err := box.Show(t.Context(), id)
			must(t, err)
			if (&e.Message).KeyHash() != once.KeyHash(e.OpKey) {
				t.Errorf("the marker does not name the operation: %+v", e)
			}
			delete(e.Headers, message.HeaderKeyHash)
			if e.Type != message.TypeSkipped || len(e.Payload) > 0 || fmt.Sprint(e.Headers) != "map[once-skip-reason:customer 42 <é> is gone]" ||
				e.Seq != before.Seq || e.Key != "k" || !e.CreatedAt.Equal(before.CreatedAt) || e.State != outbox.StateFailing || e.NextAt.IsZero() {
				t.Errorf("%+v", e)
			}
		}
		g.delivered(t, id)
		if err := box.Skip(t.Context(), id, "r"); !errors.Is(err, outbox.ErrNotFound) || !strings.Contains(err.Error(), "Try: ") {
			t.Error(err)
		}
	}
	if err := g.box.Skip(t.Context(), once.NewKey(), "r"); !errors.Is(err, outbox.ErrNotFound) {
		t.Error(err)
	}
	if err := g.box.Skip(t.Context(), once.NewKey(), ""); err == nil || errors.Is(err, outbox.ErrNotFound) {
		t.Error(err)
	}
}

// TestSkipMeetsADelivery: a skip that waits for the transaction that marks its message as delivered says
// that it is not there.
func TestSkipMeetsADelivery(t *testing.T) {
	testenv.Both(t)
	on(t, testSkipMeetsADelivery[pgx.Tx], testSkipMeetsADelivery[*sql.Tx])
}

func testSkipMeetsADelivery[TX any](t *testing.T, g *fixture[TX]) {
	m, id := withID(event("a", "k", "t"))
	g.mustAdd(t, m)
	tx, end := g.begin(t)
	_, err := g.store.On(tx).Exec(t.Context(), g.text("delete from once_outbox where event_id = ?", id))
	must(t, err)
	skipped := make(chan error)
	go func() { skipped <- g.box.Skip(t.Context(), id, "r") }()
	if g.store.Dialect() == sqlplane.PostgreSQL {
		for g.count(t, "select count(*) from pg_locks where not granted") == 0 { // it waits for the row
		}
	}
	must(t, end(true))
	if err := <-skipped; !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("%v, want %v", err, outbox.ErrNotFound)
	}
}

// TestBacklogCountsWaitingMessages counts what waits.
func TestBacklogCountsWaitingMessages(t *testing.T) {
	testenv.Both(t)
	on(t, testBacklog[pgx.Tx], testBacklog[*sql.Tx])
}

func testBacklog[TX any](t *testing.T, g *fixture[TX]) {
	b, err := g.box.Backlog(t.Context())
	if b.OldestSnapshot = 0; err != nil || b != (outbox.Backlog{}) { // a session of the pool may not have ended quite
		t.Errorf("%+v, %v of an empty outbox", b, err)
	}
	ids := make([]string, 5)
	for i := range ids {
		m, id := withID(event("a", fmt.Sprint(i), "t"))
		g.mustAdd(t, m)
		ids[i] = id
	}
	g.exec(t, "update once_outbox set created_at = AGO(?) where event_id = ?", time.Hour.Microseconds(), ids[0])
	g.failed(t, ids[0], "null")
	g.failed(t, ids[1], "NOW")
	g.failed(t, ids[2], "NOW")
	b, err = g.box.Backlog(t.Context())
	b.OldestSnapshot = 0
	if age := b.Oldest; err != nil || b != (outbox.Backlog{Messages: 5, Oldest: age, Failing: 2, Stopped: 1, Blocked: 3}) || age < time.Hour || age > 2*time.Hour {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestBacklogSnapshot: on PostgreSQL, a transaction that keeps dead rows is told, until it ends.
func TestBacklogSnapshot(t *testing.T) {
	testenv.Both(t)
	on(t, testBacklogSnapshot[pgx.Tx], testBacklogSnapshot[*sql.Tx])
}

func testBacklogSnapshot[TX any](t *testing.T, g *fixture[TX]) {
	if !g.isServer() {
		t.Skip("SQLite lets one transaction write at a time, so the case cannot exist")
	}
	snapshot := func() bool {
		b, err := g.box.Backlog(t.Context())
		must(t, err)
		return b.OldestSnapshot > 0
	}
	tx, end := g.begin(t)
	must(t, g.box.Add(t.Context(), tx, event("a", "k", "t")))
	_, err := g.store.On(tx).Exec(t.Context(), g.text("insert into charge (id) values (?)", "x")) // sends all
	must(t, err)
	if got, want := snapshot(), g.store.Dialect() == sqlplane.PostgreSQL; got != want {
		t.Errorf("an open transaction is told: %t, want %t", got, want)
	}
	must(t, end(true))
	for over := time.Now().Add(patience); snapshot() && time.Now().Before(over); { // another session of the server may be at work
		<-time.After(10 * time.Millisecond)
	}
	if snapshot() {
		t.Error("a transaction is told that has ended")
	}
}

// TestForgetErasesDeliveredPayloads: what delivered messages of a key have carried is erased, and nothing else.
func TestForgetErasesDeliveredPayloads(t *testing.T) {
	testenv.Both(t)
	on(t, testForget[pgx.Tx], testForget[*sql.Tx])
}

func testForget[TX any](t *testing.T, g *fixture[TX]) {
	ids := map[string]string{}
	for _, what := range []string{"a k delivered", "a k waiting", "a l delivered", "b k delivered"} {
		words := strings.Fields(what)
		m, id := withID(event(words[0], words[1], "t"))
		m.Headers = map[string]string{"h": "v"}
		ids[what] = id
		g.mustAdd(t, m)
		if words[2] == "delivered" {
			g.delivered(t, id)
		}
	}
	for want := int64(1); want >= 0; want-- { // a second time there is nothing left
		f, err := g.box.By("ada", "r0").Forget(t.Context(), "a", "k", "request 4711")
		if err != nil || f != (outbox.Forgotten{Erased: want, Waiting: 1}) {
			t.Errorf("%+v, %v", f, err)
		}
	}
	for what, id := range ids {
		e, err := g.box.Show(t.Context(), id)
		must(t, err)
		if erased := len(e.Payload) == 0 && len(e.Headers) == 0; erased != (what == "a k delivered") || e.Seq == 0 {
			t.Errorf("%s: %+v", what, e)
		}
	}
	for _, key := range []string{"", "unknown"} {
		if f, err := g.box.Forget(t.Context(), "a", key, "r"); f != (outbox.Forgotten{}) || (err != nil) != (key == "") {
			t.Errorf("%q: %+v, %v", key, f, err)
		}
	}
}

// TestOperatorsAreAudited: what a person changes is in the audit, with the change, and what was not changed is not.
func TestOperatorsAreAudited(t *testing.T) {
	testenv.Both(t)
	on(t, testOperatorsAreAudited[pgx.Tx], testOperatorsAreAudited[*sql.Tx])
}

func testOperatorsAreAudited[TX any](t *testing.T, g *fixture[TX]) {
	m, id := withID(event("a", "k", "t"))
	g.mustAdd(t, m)
	ada := g.box.By("ada", "r0")
	must(t, g.box.Pause(t.Context(), "a", "", "without a name"))
	must(t, ada.Pause(t.Context(), "a", "", "r1"))
	_, err := ada.Resume(t.Context(), "a", "")
	must(t, err)
	_, err = ada.Resume(t.Context(), "a", "") // nothing to do
	must(t, err)
	must(t, ada.Skip(t.Context(), id, "r2"))
	_, err = ada.Forget(t.Context(), "a", "k", "r3")
	must(t, err)
	entries, err := operate.NewKeys(g.store).Audit(t.Context(), operate.AuditFilter{Scope: "a"})
	must(t, err)
	var got []string
	for _, e := range entries.Items {
		got = append(got, fmt.Sprintf("%s %s %t %s %s", e.Who, e.Action, e.KeyHash == once.KeyHash("k"), e.Reason, e.Detail))
	}
	want := []string{
		"ada outbox forget true r3 0 delivered messages erased, 1 wait for their delivery",
		"ada outbox skip true r2 message " + id,
		"ada outbox resume false r0 the topic, 0 failed messages tried again",
		"ada outbox pause false r1 the topic",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	g.exec(t, "drop table once_audit")
	if err := ada.Pause(t.Context(), "b", "", "r4"); !errors.Is(err, store.ErrNotMigrated) {
		t.Errorf("%v, want %v", err, store.ErrNotMigrated)
	}
	if n := g.count(t, "select count(*) from once_outbox_paused"); n != 0 {
		t.Error("what is not audited is done")
	}
}
