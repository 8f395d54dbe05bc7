package inbox

// The tests with databases are in integration/inbox: "make test-of DIR=inbox" runs them after these.

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/sqlplane"
)

// TestNewNeedsTransactionsOfSQL: a store without them is refused when the program starts, with a store that has them.
func TestNewNeedsTransactionsOfSQL(t *testing.T) {
	t.Parallel()
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "Try: pgxstore or sqlstore") {
			t.Errorf("%q", text)
		}
	}()
	New(once.New(memstore.New(), once.Config{}), Config{Consumer: "billing"})
}

// TestSkipIsSigned: who gives a message up, and why, is one line each.
func TestSkipIsSigned(t *testing.T) {
	t.Parallel()
	if err := checkSigned("ada", "order 7 was cancelled"); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][2]string{{"", "why"}, {" ", "why"}, {"ada", ""}, {"ada\n", "why"}, {"ada", "\xff"}, {"ada", strings.Repeat("x", maxSigned+1)}} {
		if err := checkSigned(wrong[0], wrong[1]); err == nil || !strings.Contains(err.Error(), "inbox: ") {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
}

// TestCheckedMessageIsCompleted: a message without a source gets the default one, and loses a trace that is none. Without an ID it is refused.
func TestCheckedMessageIsCompleted(t *testing.T) {
	t.Parallel()
	c := (&Config{Consumer: "billing"}).complete()
	m, err := c.checked(message.Message{ID: "1", Topic: "refunds", Type: "t", Trace: "a\nb"})
	if err != nil || m.Source != defaultSource || m.Trace != "" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := c.checked(message.Message{Topic: "refunds", Type: "t"}); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("no ID: %v", err)
	}
}

// TestBatchIsInTheOrderOfItsKeys: the messages of a key stand in the order of their Seq where the first of them came; others stay.
func TestBatchIsInTheOrderOfItsKeys(t *testing.T) {
	t.Parallel()
	in := &Inbox[int]{cfg: Config{Order: InOrder}}
	var items []*item
	for text := range strings.FieldsSeq("a3 b1 - a1 b2 a2 -") {
		m := message.Message{ID: fmt.Sprint(len(items)), Type: text}
		if text != "-" {
			m.Key, m.Seq = text[:1], int64(text[1]-'0')
		}
		items = append(items, in.newItem(m))
	}
	var got []string
	for _, it := range inTurn(items) {
		got = append(got, it.m.Type)
	}
	if want := "a1 a2 a3 b1 b2 - -"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRecentIDsTellAReusedSeq: of the last messages of a key it is known whether another one had their Seq. Of older and skipped ones it is not.
func TestRecentIDsTellAReusedSeq(t *testing.T) {
	t.Parallel()
	var r recent
	for _, seq := range []int64{1, 2, 4, 5, 6, 7, 8, 9, 10} { // 3 was skipped
		r = r.with(seq, fmt.Sprint(seq))
	}
	if len(r) != idSize*(1+recentIDs) {
		t.Errorf("%d bytes", len(r))
	}
	for seq := int64(-1); seq <= 12; seq++ {
		known := seq >= 4 && seq <= 10
		if r.other(seq, fmt.Sprint(seq)) || r.other(seq, "another") != known {
			t.Errorf("%d: with its own ID %v, with another one %v", seq, r.other(seq, fmt.Sprint(seq)), r.other(seq, "another"))
		}
	}
	if far := r.with(1000, "far"); far.other(10, "another") || !far.other(1000, "another") {
		t.Error("a jump keeps IDs of messages before it")
	}
}

// TestOutcomeOfAKnownID: a row with an ID is a duplicate or a dead letter. With another body or envelope the message is a mismatch, and a row
// without one, of a marker or an older program, matches any.
func TestOutcomeOfAKnownID(t *testing.T) {
	t.Parallel()
	in := &Inbox[int]{}
	it := in.newItem(message.Message{ID: "1", Topic: "t", Payload: []byte("x")})
	for name, c := range map[string]struct {
		row  known
		want Outcome
		same bool
	}{
		"applied":          {known{hash: it.hash, envelope: it.envelope, processed: true}, Duplicate, true},
		"its letter waits": {known{hash: it.hash, envelope: it.envelope}, DeadLettered, true},
		"another body":     {known{hash: []byte("y"), envelope: it.envelope, processed: true}, Duplicate, false},
		"another topic":    {known{hash: it.hash, envelope: []byte("u"), processed: true}, Duplicate, false},
		"an older program": {known{hash: it.hash, processed: true}, Duplicate, true},
		"a marker":         {known{processed: true}, Duplicate, true},
	} {
		if got, same := c.row.outcome(it); got != c.want || same != c.same {
			t.Errorf("%s: %v, %v", name, got, same)
		}
	}
}

// TestStatementsForAnyNumberOfRows: many rows are taken by statements that exist, on each database.
func TestStatementsForAnyNumberOfRows(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlplane.Dialect{sqlplane.PostgreSQL, sqlplane.MySQL, sqlplane.SQLite} {
		texts := textsOf(d)
		for n := 1; n <= 600; n++ {
			for rest := n; rest > 0; {
				took := texts.chunk(rest)
				if took < 1 || took > rest {
					t.Fatalf("%s: %d of %d rows", d, took, rest)
				}
				if d != sqlplane.PostgreSQL && (strings.Count(texts.addRows[took], "?") != 5*took || strings.Count(texts.newRows[took], "?") != 4*took || texts.lockRows[took] == "") {
					t.Fatalf("%s: no statement for %d rows", d, took)
				}
				rest -= took
			}
		}
		if d == sqlplane.PostgreSQL && (texts.addMany == "" || texts.lockMany == "" || texts.moveMany == "" || !strings.Contains(texts.addOne, "$5")) {
			t.Errorf("%+v", texts)
		}
	}
}

// TestLogLevelOfEachEvent: a dead letter and a gap are errors, a failure is a warning, and the log has the key as a hash beside the key of the order.
func TestLogLevelOfEachEvent(t *testing.T) {
	t.Parallel()
	for event, want := range map[EventType]string{
		EventDeadLettered: "level=ERROR", EventGap: "level=ERROR", EventFailed: "level=WARN", EventDatabase: "level=WARN", EventSameBody: "level=WARN", EventApplied: "level=DEBUG",
	} {
		var b bytes.Buffer
		log := Log(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
		log.Observe(t.Context(), Event{Type: event, Consumer: "billing", Message: message.Message{ID: "1", Source: "shop", Topic: "refunds", Key: "acct_1", Seq: 7}, Err: errors.New("down"), Attempt: 2})
		for _, part := range []string{want, `msg="inbox: ` + string(event), "consumer=billing", "event_id=1", "source=shop", "topic=refunds", "seq=7", "attempt=2", "error=down"} {
			if !strings.Contains(b.String(), part) {
				t.Errorf("%s: no %s in %s", event, part, b.String())
			}
		}
	}
}
