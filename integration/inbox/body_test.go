package inbox

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestSameBody: a message whose body was applied under another ID is told, and applied all the same: one by one, in a batch,
// and after it was parked. A duplicate, another source, another consumer and an empty body are not told.
func TestSameBody(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testSameBody[pgx.Tx], testSameBody[*sql.Tx])
}

func testSameBody[TX any](t *testing.T, g *fixture[TX]) {
	with := func(body string, m message.Message) message.Message {
		m.Payload = []byte(body)
		return m
	}
	elsewhere := with("body", event("source"))
	elsewhere.Source = "another"
	in, told := g.inbox(t, inbox.Config{ReportSameBody: true, Retain: time.Hour})
	silent, untold := g.inbox(t, inbox.Config{Consumer: "silent"})
	other, _ := g.inbox(t, inbox.Config{Consumer: "other", ReportSameBody: true})
	sorted, sortedTold := g.inbox(t, inbox.Config{Consumer: "sorted", Order: inbox.InOrder, ReportSameBody: true})
	wantTold := func(what string, d *diary, want ...string) {
		t.Helper()
		var got []string
		for _, e := range d.of(inbox.EventSameBody) {
			got = append(got, e.Message.ID+" as "+e.SameAs)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q is told, want %q", what, got, want)
		}
	}
	must(t, errorsOf(other.HandleBatch(t.Context(), []message.Message{with("body", event("0"))}, g.book)))
	for _, in := range []*inbox.Inbox[TX]{in, silent} {
		for _, m := range []message.Message{with("body", event("a")), with("body", event("a")), elsewhere, with("", event("e")), with("", event("f"))} {
			_, err := in.Handle(t.Context(), m, g.book)
			must(t, err)
		}
	}
	wantTold("no other ID", told)
	for _, in := range []*inbox.Inbox[TX]{in, silent} {
		o, err := in.Handle(t.Context(), with("body", event("b")), g.book)
		want(t, o, err, inbox.Applied)
	}
	wantTold("another ID", told, "b as a")
	wantTold("it is off", untold)

	var batch []message.Message
	wanted := []string{"b as a"}
	for i := range 40 { // more than one look-up
		id := fmt.Sprintf("x%02d", i)
		batch = append(batch, with(id, event(id)))
	}
	must(t, errorsOf(in.HandleBatch(t.Context(), batch, g.book)))
	for i := range batch {
		id := strings.Replace(batch[i].ID, "x", "y", 1)
		wanted = append(wanted, id+" as "+batch[i].ID)
		batch[i].ID = id
	}
	must(t, errorsOf(in.HandleBatch(t.Context(), batch, g.book)))
	wantTold("a batch", told, wanted...)

	for _, seq := range []int64{2, 1} { // the first one is parked
		_, err := sorted.Handle(t.Context(), with("order", ordered("k", seq)), g.book)
		must(t, err)
	}
	wantTold("a parked message", sortedTold, "k-2 as k-1")

	g.exec(t, "update once_inbox_body set applied_at = AGO(?) where source = ?", (2 * time.Hour).Microseconds(), event("").Source)
	must(t, in.Sweep(t.Context()))
	if n := g.count(t, "select count(*) from once_inbox_body where consumer = ?", "billing"); n != 1 {
		t.Errorf("%d bodies are left", n)
	}
	if n := g.count(t, "select count(*) from once_inbox_body where consumer <> ?", "billing"); n != 3 {
		t.Errorf("%d bodies of other consumers are left", n)
	}
	o, err := in.Handle(t.Context(), with("body", event("c")), g.book)
	want(t, o, err, inbox.Applied)
	wantTold("beyond the retention", told, wanted...)
}
