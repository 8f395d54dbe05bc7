package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

func idOf(event string) letter.ID {
	return letter.ID{Origin: letter.OriginInbox, Consumer: "billing", Source: "shop", EventID: event, Topic: "refunds", Key: "acct_1", Seq: 7}
}

// newLetter is a letter of an inbox.
func newLetter(event string) *letter.Letter {
	return &letter.Letter{
		ID: idOf(event), Type: "refund.created", Headers: []byte(`{"a":"b"}`), Payload: []byte{0, 1, 255}, Hash: []byte("hash of " + event),
		Trace: "00-1-2-01", CreatedAt: time.Now().Add(-time.Hour), Class: "permanent", Error: "order 4711 of acct_12 is unknown", Attempts: 3, FirstFailedAt: time.Now().Add(-time.Minute),
	}
}

func (g *fixture) bury(t *testing.T, l *letter.Letter) string {
	t.Helper()
	must(t, letter.Within(t.Context(), g, func(ctx context.Context, r sqlplane.Runner) error { return letter.Bury(ctx, r, g.Dialect(), l) }))
	return l.UID
}

// shown describes a letter.
func (g *fixture) shown(t *testing.T, uid string) (text string) {
	t.Helper()
	must(t, g.Pool().Query(t.Context(), g.text("select "+letter.Columns+" from once_deadletter where uid = ?", uid), func(row sqlplane.Row) error {
		l, err := letter.Scan(row)
		text = fmt.Sprintf("%s %s %d %q due %v", l.State, l.Class, l.Attempts, l.Payload, !l.RedriveAt.IsZero())
		return err
	}))
	return text
}

func want(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// take applies a due letter as an inbox does.
func (g *fixture) take(t *testing.T, uid string, fail error) (ok bool) {
	t.Helper()
	err := letter.Within(t.Context(), g, func(ctx context.Context, r sqlplane.Runner) (err error) {
		if ok, err = letter.Take(ctx, r, g.Dialect(), uid); err != nil || !ok {
			return err
		}
		if fail != nil {
			return fail
		}
		return letter.Resolve(ctx, r, g.Dialect(), uid, letter.StateApplied)
	})
	if fail == nil || !errors.Is(err, fail) {
		must(t, err)
	}
	return ok
}

// TestLetterLife: a letter is stored once for each message and body, waits until it is due, and is applied once.
func TestLetterLife(t *testing.T) {
	testenv.Both(t)
	on(t, testLetterLife)
}

func testLetterLife(t *testing.T, g *fixture) {
	l := newLetter("e1")
	uid := g.bury(t, l)
	want(t, g.bury(t, newLetter("e1")), uid)
	other := newLetter("e1")
	other.Hash = []byte("another")
	if g.bury(t, other) == uid {
		t.Error("a message with another body is the same letter")
	}
	want(t, g.shown(t, uid), `dead permanent 3 "\x00\x01\xff" due false`)
	want(t, g.take(t, uid, nil), false)

	g.exec(t, "update once_deadletter set redrive = 'r', redrive_at = AGO(?) where uid = ?", -time.Hour.Microseconds(), uid)
	want(t, g.take(t, uid, nil), false)
	due := func() (list []string) {
		all, err := letter.Due(t.Context(), g, letter.OriginInbox, "billing", 10, letter.Except{})
		must(t, err)
		for _, l := range all {
			list = append(list, fmt.Sprintf("%s %s %s %s %d %s %s %s %v", l.EventID, l.Topic, l.Key, l.Type, l.Seq, l.Headers, l.Trace, l.Cause, time.Since(l.CreatedAt).Round(time.Hour)))
		}
		return list
	}
	want(t, due(), []string{})
	g.exec(t, "update once_deadletter set redrive_at = AGO(?) where uid = ?", time.Second.Microseconds(), uid)
	want(t, due(), []string{`e1 refunds acct_1 refund.created 7 {"a":"b"} 00-1-2-01 order # of # is unknown 1h0m0s`})

	boom := errors.New("boom")
	want(t, g.take(t, uid, boom), true)
	must(t, letter.Again(t.Context(), g, uid, letter.Attempt{Node: "n", Error: boom.Error(), Class: "exhausted"}))
	want(t, g.shown(t, uid), `dead exhausted 4 "\x00\x01\xff" due false`)
	must(t, letter.Again(t.Context(), g, uid, letter.Attempt{Error: "late"})) // nothing is due any more
	want(t, g.shown(t, uid), `dead exhausted 4 "\x00\x01\xff" due false`)
	want(t, g.count(t, "select count(*) from once_deadletter_attempt"), 1)

	g.exec(t, "update once_deadletter set redrive_at = NOW where uid = ?", uid)
	want(t, g.take(t, uid, nil), true)
	want(t, g.take(t, uid, nil), false)
	want(t, g.shown(t, uid), `applied exhausted 4 "" due false`)
	want(t, g.bury(t, newLetter("e1")), uid)
	want(t, g.shown(t, uid), `dead permanent 3 "\x00\x01\xff" due false`)
}

// TestTakeOnce: of many processes that redrive the same letter, one applies it.
func TestTakeOnce(t *testing.T) {
	testenv.Both(t)
	on(t, testTakeOnce)
}

func testTakeOnce(t *testing.T, g *fixture) {
	uid := g.bury(t, newLetter("e"))
	g.exec(t, "update once_deadletter set redrive_at = NOW where uid = ?", uid)
	var all sync.WaitGroup
	applied := make(chan bool, 8)
	for range cap(applied) {
		all.Go(func() { applied <- g.take(t, uid, nil) })
	}
	all.Wait()
	close(applied)
	n := 0
	for ok := range applied {
		if ok {
			n++
		}
	}
	want(t, n, 1)
}

// TestRecordNumbersAttempts: attempts are numbered, also those of several processes at once, and of very many the first and the last are kept.
func TestRecordNumbersAttempts(t *testing.T) {
	testenv.Both(t)
	on(t, testRecord)
}

func testRecord(t *testing.T, g *fixture) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, _, _, err := letter.Record(t.Context(), g, idOf("busy"), letter.Attempt{Node: "n", Error: "no"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	n, first, now, err := letter.Record(t.Context(), g, idOf("busy"), letter.Attempt{Node: strings.Repeat("é", 200), Error: "a\x00b\xff" + strings.Repeat("é", 2000), Trace: "t"})
	must(t, err)
	want(t, n, 5)
	if now.Before(first) || time.Since(first) > time.Hour {
		t.Errorf("first %v, now %v", first, now)
	}
	g.exec(t, "update once_deadletter_attempt set attempt = 104 where attempt = 5")
	for _, number := range []int{50, 51, 53, 55, 56} {
		g.exec(t, "insert into once_deadletter_attempt (origin, consumer, source, event_id, attempt, at, node, error, trace) values ('inbox', 'billing', 'shop', 'busy', ?, NOW, '', '', '')", int64(number))
	}
	n, _, _, err = letter.Record(t.Context(), g, idOf("busy"), letter.Attempt{})
	must(t, err)
	want(t, n, 105)
	var kept []int
	must(t, g.Pool().Query(t.Context(), g.text("select attempt from once_deadletter_attempt order by attempt"), func(row sqlplane.Row) error {
		var a int
		err := row.Scan(&a)
		kept = append(kept, a)
		return err
	}))
	want(t, kept, []int{1, 2, 3, 4, 50, 56, 104, 105})
}

// TestSweepKeepsWaitingLetters: what waits for a person stays for ever, with its attempts.
func TestSweepKeepsWaitingLetters(t *testing.T) {
	testenv.Both(t)
	on(t, testSweep)
}

func testSweep(t *testing.T, g *fixture) {
	old := func(set, where string) {
		g.exec(t, "update once_deadletter"+set+" where "+where, time.Hour.Microseconds())
	}
	for _, event := range []string{"dead", "applied", "fresh"} {
		g.bury(t, newLetter(event))
		_, _, _, err := letter.Record(t.Context(), g, idOf(event), letter.Attempt{})
		must(t, err)
	}
	_, _, _, err := letter.Record(t.Context(), g, idOf("healed"), letter.Attempt{})
	must(t, err)
	old("_attempt set at = AGO(?)", "attempt = 1")
	old(" set dead_at = AGO(?)", "event_id = 'dead'")
	old(" set state = 'applied', resolved_at = AGO(?)", "event_id = 'applied'")
	g.exec(t, "update once_deadletter set state = 'applied', resolved_at = NOW where event_id = 'fresh'")
	for range 4 {
		must(t, letter.Sweep(t.Context(), g, time.Minute, 1))
	}
	want(t, g.count(t, "select count(*) from once_deadletter where event_id in ('dead', 'fresh')"), 2)
	want(t, g.count(t, "select count(*) from once_deadletter"), 2)
	want(t, g.count(t, "select count(*) from once_deadletter_attempt"), 2)
}

// TestSealedLetter: a letter that was encrypted opens with its key, and in no other row.
func TestSealedLetter(t *testing.T) {
	e, err := once.NewEncrypter(make([]byte, 32))
	must(t, err)
	l := newLetter("e")
	must(t, l.Seal(e))
	if !l.Encrypted || strings.Contains(string(l.Headers), "a") && string(l.Headers) == `{"a":"b"}` {
		t.Error("it is not encrypted")
	}
	moved := *l
	moved.EventID = "f"
	if err := moved.Open(e); err == nil {
		t.Error("it opens in another row")
	}
	if err := l.Open(nil); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("without a key: %v", err)
	}
	must(t, l.Open(e))
	want(t, l.Payload, newLetter("e").Payload)
	want(t, string(l.Headers), `{"a":"b"}`)
}
