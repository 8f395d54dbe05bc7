package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// TestMessagesAreAppliedOnce: each message is applied once, whatever its deliveries are.
func TestMessagesAreAppliedOnce(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testOnce[pgx.Tx], testOnce[*sql.Tx])
}

func testOnce[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{})
	other, _ := g.inbox(t, inbox.Config{Consumer: "search"})
	for _, w := range []inbox.Outcome{inbox.Applied, inbox.Duplicate, inbox.Duplicate} {
		o, err := in.Handle(t.Context(), event("a"), g.book)
		want(t, o, err, w)
	}
	g.wantBooked(t, "a")
	o, err := other.Handle(t.Context(), event("a"), g.book)
	want(t, o, err, inbox.Applied)
	elsewhere := event("a")
	elsewhere.Source = "t"
	o, err = in.Handle(t.Context(), elsewhere, g.book)
	want(t, o, err, inbox.Applied)
	g.wantBooked(t, "a", "a", "a")
	if n := len(told.of(inbox.EventApplied)); n != 2 || len(told.of(inbox.EventDuplicate)) != 2 {
		t.Errorf("told: %+v", told.list)
	}

	// The same ID with another body is refused and kept.
	changed := event("a")
	changed.Payload = []byte("another one")
	for range 2 {
		o, err = in.Handle(t.Context(), changed, g.book)
		want(t, o, err, inbox.DeadLettered)
	}
	if n := g.count(t, "select count(*) from once_deadletter where class = 'mismatch' and state = 'dead'"); n != 1 {
		t.Errorf("%d letters", n)
	}
	g.wantBooked(t, "a", "a", "a")

	// A marker takes an ID, and calls no handler.
	marker := event("b")
	marker.Type, marker.Payload = message.TypeSkipped, nil
	o, err = in.Handle(t.Context(), marker, g.book)
	want(t, o, err, inbox.Skipped)
	o, err = in.Handle(t.Context(), event("b"), g.book)
	want(t, o, err, inbox.Duplicate)
	o, err = in.Handle(t.Context(), marker, g.book)
	want(t, o, err, inbox.Duplicate)
	g.wantBooked(t, "a", "a", "a")
	if n := g.count(t, "select count(*) from once_inbox where processed_at is null or result is not null"); n != 0 {
		t.Errorf("%d strange rows", n)
	}
}

// TestFailuresAreRetriedThenGivenUp: a failed message has no effect, is delivered again after a pause, and is given up in the end.
func TestFailuresAreRetriedThenGivenUp(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testFailures[pgx.Tx], testFailures[*sql.Tx])
}

func testFailures[TX any](t *testing.T, g *fixture[TX]) {
	for _, order := range []inbox.Order{inbox.AnyOrder, inbox.InOrder, inbox.LatestVersion} {
		in, told := g.inbox(t, inbox.Config{Consumer: fmt.Sprint(order), Order: order, Policy: &retry.Policy{Attempts: 3, Base: time.Hour, Cap: time.Hour, Total: -1}})
		key := fmt.Sprintf("k%d", order)
		fn := g.failing(named(key + "-1"))
		for try := 1; try <= 2; try++ {
			o, err := in.Handle(t.Context(), ordered(key, 1), fn)
			if _, after := retry.Classify(err); err == nil || o != "" || after <= 0 || !strings.Contains(err.Error(), "does not like") {
				t.Errorf("try %d: %q, %v, after %v", try, o, err, after)
			}
		}
		for range 2 { // and a delivery of what was given up does not try
			o, err := in.Handle(t.Context(), ordered(key, 1), fn)
			if order == inbox.LatestVersion && err == nil && o == inbox.DeadLettered {
				continue // it is tried, and given up again
			}
			want(t, o, err, inbox.DeadLettered)
		}
		if n := len(told.of(inbox.EventFailed)); n != 2 {
			t.Errorf("%d failures told", n)
		}
		dead := told.of(inbox.EventDeadLettered)
		if len(dead) == 0 || dead[0].Attempt != 3 || dead[0].Class != "exhausted" {
			t.Errorf("told %+v", dead)
		}
		o, err := in.Handle(t.Context(), ordered(key, 2), fn)
		want(t, o, err, map[inbox.Order]inbox.Outcome{inbox.AnyOrder: inbox.Applied, inbox.InOrder: inbox.Parked, inbox.LatestVersion: inbox.Applied}[order])
	}
	g.wantBooked(t, "k0-2", "k2-2")
	if n := g.letters(t); n != 3 {
		t.Errorf("%d letters", n)
	}

	in, told := g.inbox(t, inbox.Config{Policy: soon(100)})
	o, err := in.Handle(t.Context(), event("p"), func(ctx context.Context, tx TX, m message.Message) error {
		return retry.Permanent(errRefused)
	})
	want(t, o, err, inbox.DeadLettered)
	o, err = in.Handle(t.Context(), event("panic"), func(context.Context, TX, message.Message) error { panic("ouch") })
	if err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Errorf("%q, %v", o, err)
	}
	if dead := told.of(inbox.EventDeadLettered); len(dead) != 1 || dead[0].Class != "permanent" {
		t.Errorf("told %+v", dead)
	}
	// An operator finds the letter by the UID in the log.
	if dead := told.of(inbox.EventDeadLettered); len(dead) == 1 {
		letter, _, err := deadletter.New(g.store, deadletter.Config{}).Show(t.Context(), dead[0].Letter)
		if err != nil || letter.EventID != dead[0].Message.ID {
			t.Errorf("the UID %q of the event leads to the letter of %q: %v", dead[0].Letter, letter.EventID, err)
		}
	}

	// The end of the context is no attempt.
	before := g.count(t, "select count(*) from once_deadletter_attempt")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = in.Handle(ctx, event("c"), func(context.Context, TX, message.Message) error { cancel(); return errRefused })
	if after := g.count(t, "select count(*) from once_deadletter_attempt"); err == nil || after != before {
		t.Errorf("%v, %d attempts", err, after-before)
	}
	o, err = in.Handle(t.Context(), event("c"), g.book)
	want(t, o, err, inbox.Applied)
}

// TestMalformedMessagesAreDeadLetters messages are dead letters: they would fail for ever.
func TestMalformedMessagesAreDeadLetters(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testMalformed[pgx.Tx], testMalformed[*sql.Tx])
}

func testMalformed[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{MaxPayload: 100, Order: inbox.InOrder})
	n := 0
	edit := func(f func(m *message.Message)) message.Message {
		n++
		m := ordered("k", 1)
		m.ID = fmt.Sprint("bad-", n)
		f(&m)
		return m
	}
	bad := []message.Message{
		edit(func(m *message.Message) { m.ID = "" }),
		edit(func(m *message.Message) { m.ID = strings.Repeat("x", 256) }),
		edit(func(m *message.Message) { m.ID = "a\x00b" }),
		edit(func(m *message.Message) { m.Key = "a\nb" }),
		edit(func(m *message.Message) { m.Topic = strings.Repeat("ü", 200) }),
		edit(func(m *message.Message) { m.Source = "\xff" }),
		edit(func(m *message.Message) { m.Seq = -1 }),
		edit(func(m *message.Message) { m.Headers = map[string]string{"h": strings.Repeat("x", 70000)} }),
	}
	for range 2 {
		for _, r := range in.HandleBatch(t.Context(), bad, g.book) {
			want(t, r.Outcome, r.Err, inbox.DeadLettered)
		}
		must(t, in.Refuse(t.Context(), message.Message{Payload: []byte{0xff, 0}}, "malformed", errRefused))
	}
	if n, all := g.count(t, "select count(*) from once_deadletter where class = 'malformed'"), g.letters(t); n != len(bad)+1 || n != all {
		t.Errorf("%d letters of %d are malformed", n, all)
	}
	large := edit(func(m *message.Message) { m.Payload = make([]byte, 101) })
	o, err := in.Handle(t.Context(), large, g.book)
	want(t, o, err, inbox.DeadLettered)
	o, err = in.Handle(t.Context(), ordered("k", 2), g.book)
	want(t, o, err, inbox.Parked) // it is in the way
	if n := g.count(t, "select length(payload) from once_deadletter where class = 'too_large'"); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
	g.wantBooked(t)
	if n := len(told.of(inbox.EventApplied)); n != 0 {
		t.Errorf("%d applied", n)
	}
}
