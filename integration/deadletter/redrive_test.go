package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// patience bounds what should end by itself.
const patience = 2 * time.Minute

func (g *fixture) letters() *deadletter.Letters { return deadletter.New(g, deadletter.Config{}) }

// buryMany writes n letters, whose errors have two causes.
func (g *fixture) buryMany(t *testing.T, n int) (uids []string) {
	t.Helper()
	must(t, letter.Within(t.Context(), g, func(ctx context.Context, r sqlplane.Runner) error {
		uids = nil
		for i := range n {
			l := newLetter(fmt.Sprintf("event-%d", i))
			l.UID = fmt.Sprintf("01945a00-0000-7000-8000-%012d", i)
			l.Key, l.Error = "", fmt.Sprintf("order %d is unknown", i)
			if i%5 == 4 {
				l.Error, l.Class = fmt.Sprintf("timeout after %d ms", i), "exhausted"
			}
			if err := letter.Bury(ctx, r, g.Dialect(), l); err != nil {
				return err
			}
			uids = append(uids, l.UID)
		}
		return nil
	}))
	return uids
}

var signed = deadletter.RedriveOptions{Who: "ada", Reason: "repaired"}

func (g *fixture) redrive(t *testing.T, f deadletter.Filter, o deadletter.RedriveOptions) deadletter.Redrive {
	t.Helper()
	r, err := g.letters().Redrive(t.Context(), f, o)
	must(t, err)
	return r
}

func (g *fixture) progress(t *testing.T, uid string) string {
	t.Helper()
	r, err := g.letters().Progress(t.Context(), uid)
	must(t, err)
	return fmt.Sprintf("%s total %d waiting %d applied %d failed %d discarded %d", r.State, r.Total, r.Waiting, r.Applied, r.Failed, r.Discarded)
}

// audit returns the audit, the oldest first.
func (g *fixture) audit(t *testing.T) (list []string) {
	t.Helper()
	entries, err := operate.NewKeys(g).Audit(t.Context(), operate.AuditFilter{})
	must(t, err)
	for _, e := range entries.Items {
		list = append([]string{fmt.Sprintf("%s %s %s: %s", e.Who, e.Action, e.Scope, e.Reason)}, list...)
	}
	return list
}

// TestRedriveDelivered: a letter whose message was delivered by a relay without letters does not wait for ever, and is no canary.
func TestRedriveDelivered(t *testing.T) {
	testenv.Both(t)
	on(t, testRedriveDelivered)
}

func testRedriveDelivered(t *testing.T, g *fixture) {
	l := newLetter("01945a00-0000-7000-8000-000000000001")
	l.Origin, l.Consumer, l.Hash = letter.OriginOutbox, "", []byte("hash")
	must(t, letter.Within(t.Context(), g, func(ctx context.Context, r sqlplane.Runner) error { return letter.Bury(ctx, r, g.Dialect(), l) }))
	o := signed
	o.Canary = true
	r := g.redrive(t, deadletter.Filter{}, o)
	want(t, g.progress(t, r.UID), "done total 1 waiting 0 applied 1 failed 0 discarded 0")
	shown, _, err := g.letters().Show(t.Context(), l.UID)
	must(t, err)
	want(t, []any{shown.State, r.Canary}, []any{"stale", ""})
}

// TestRedriveOptions: what makes no sense is refused before anything is written.
func TestRedriveOptions(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, g *fixture) {
		for _, rate := range []float64{-1, 1e-12, 1e7, math.NaN(), math.Inf(1)} {
			o := signed
			o.Rate = rate
			if _, err := g.letters().Redrive(t.Context(), deadletter.Filter{}, o); err == nil || !strings.Contains(err.Error(), "Try: ") {
				t.Errorf("the rate %v: %v", rate, err)
			}
		}
		if _, _, err := g.letters().Count(t.Context(), deadletter.Filter{Origin: "mailbox"}); err == nil {
			t.Error("an origin that there is not was accepted")
		}
	})
}

// TestRedriveByCause: letters are found by cause, chosen once, spread over time, and counted; what has failed can be redriven again.
func TestRedriveByCause(t *testing.T) {
	testenv.Both(t)
	on(t, testRedrive)
}

func testRedrive(t *testing.T, g *fixture) {
	uids := g.buryMany(t, 10)
	groups, err := g.letters().Groups(t.Context(), deadletter.Filter{})
	must(t, err)
	var causes []string
	for _, c := range groups {
		causes = append(causes, fmt.Sprintf("%d %s: %s", c.Letters, c.Class, c.Cause))
	}
	want(t, causes, []string{"8 permanent: order # is unknown", "2 exhausted: timeout after # ms"})
	var listed []string
	for f := (deadletter.Filter{Limit: 3}); ; {
		list, next, err := g.letters().List(t.Context(), f)
		must(t, err)
		for _, l := range list {
			listed = append(listed, l.UID)
		}
		if f.After = next; next == "" {
			break
		}
	}
	want(t, listed, uids)

	cause := deadletter.Filter{Cause: groups[0].Cause}
	dry := g.redrive(t, cause, deadletter.RedriveOptions{DryRun: true})
	want(t, []any{dry.Total, dry.UID == "", g.count(t, "select count(*) from once_deadletter_redrive")}, []any{8, true, 0})
	o := signed
	o.Rate = 0.01
	r := g.redrive(t, cause, o)
	want(t, g.progress(t, r.UID), "running total 8 waiting 8 applied 0 failed 0 discarded 0")
	want(t, g.spread(t, r.UID), []int{0, 100, 200, 300, 400, 500, 600, 700})

	again := g.redrive(t, deadletter.Filter{}, signed) // what the first one has not chosen
	want(t, g.progress(t, again.UID), "running total 2 waiting 2 applied 0 failed 0 discarded 0")
	empty := g.redrive(t, deadletter.Filter{}, signed)
	want(t, g.progress(t, empty.UID), "done total 0 waiting 0 applied 0 failed 0 discarded 0")

	want(t, g.take(t, uids[0], nil), true)  // due at once
	want(t, g.take(t, uids[1], nil), false) // due in 100 seconds
	g.exec(t, "update once_deadletter set redrive_at = NOW where redrive = ?", r.UID)
	for _, uid := range uids[1:4] {
		want(t, g.take(t, uid, nil), true)
	}
	must(t, letter.Again(t.Context(), g, uids[5], letter.Attempt{Error: "still unknown"}))
	want(t, g.progress(t, r.UID), "running total 8 waiting 3 applied 4 failed 1 discarded 0")
	third := g.redrive(t, deadletter.Filter{}, signed)
	want(t, g.progress(t, third.UID), "running total 1 waiting 1 applied 0 failed 0 discarded 0")
	want(t, g.audit(t), []string{"ada redrive deadletter: repaired", "ada redrive deadletter: repaired", "ada redrive deadletter: repaired", "ada redrive deadletter: repaired"})

	shown, attempts, err := g.letters().Show(t.Context(), uids[5])
	must(t, err)
	want(t, []any{shown.Error, shown.Headers["a"], string(shown.Payload), len(attempts), attempts[0].Error}, []any{"still unknown", "b", "\x00\x01\xff", 1, "still unknown"})
}

// TestMostLetters: a bound of what is read ends a count, and says so; a list with it has pages until the end. It does not end what a redrive and a discard
// change: all that match.
func TestMostLetters(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, g *fixture) {
		uids := g.buryMany(t, 10)
		timeouts := deadletter.Filter{Class: "exhausted"} // the fifth and the tenth
		for _, c := range []struct {
			most int
			want []any
		}{{0, []any{2, false, 2, false}}, {4, []any{0, true, 0, true}}, {5, []any{1, true, 1, true}}, {10, []any{2, true, 2, true}}, {11, []any{2, false, 2, false}}} {
			f := timeouts
			f.Most = c.most
			n, more, err := g.letters().Count(t.Context(), f)
			must(t, err)
			dry := g.redrive(t, f, deadletter.RedriveOptions{DryRun: true})
			want(t, []any{int(n), more, int(dry.Total), dry.More}, c.want)
		}
		var listed []string
		pages := 0
		for f := (deadletter.Filter{Class: "exhausted", Most: 3}); ; pages++ {
			list, next, err := g.letters().List(t.Context(), f)
			must(t, err)
			for _, l := range list {
				listed = append(listed, l.UID)
			}
			if f.After = next; next == "" {
				break
			}
		}
		want(t, []any{listed, pages}, []any{[]string{uids[4], uids[9]}, 2})
		one := deadletter.Filter{UID: uids[9], Most: 1}
		n, more, err := g.letters().Count(t.Context(), one)
		must(t, err)
		want(t, []any{int(n), more}, []any{1, false})
		timeouts.Most = 3
		r := g.redrive(t, timeouts, signed)
		want(t, g.progress(t, r.UID), "running total 2 waiting 2 applied 0 failed 0 discarded 0")
		discarded, err := g.letters().Discard(t.Context(), timeouts, "ada", "old")
		must(t, err)
		want(t, int(discarded), 2)
	})
}

// spread returns when the letters of a redrive are due, in seconds after the first one.
func (g *fixture) spread(t *testing.T, uid string) (seconds []int) {
	t.Helper()
	var first time.Time
	for f := (deadletter.Filter{Limit: 1000}); ; {
		list, next, err := g.letters().List(t.Context(), f)
		must(t, err)
		for _, l := range list {
			if l.Redrive != uid || l.RedriveAt.IsZero() {
				continue
			}
			if first.IsZero() {
				first = l.RedriveAt
			}
			seconds = append(seconds, int(math.Round(l.RedriveAt.Sub(first).Seconds()/10)*10)) // a busy database takes its time
		}
		if f.After = next; next == "" {
			return seconds
		}
	}
}

// TestRedriveRefused: what makes no sense is refused with advice, and nothing is changed.
func TestRedriveRefused(t *testing.T) {
	g := newOn(t, harness.SQLite)
	g.buryMany(t, 1)
	l := g.letters()
	for _, o := range []deadletter.RedriveOptions{{}, {Who: "ada"}, {Reason: "r"}, {Who: "ada", Reason: "a\nb"}, {Who: "ada", Reason: strings.Repeat("r", 513)}, {Who: "ada", Reason: "r", Rate: -1}, {Who: "ada", Reason: "r", Rate: math.Inf(1)}} {
		if _, err := l.Redrive(t.Context(), deadletter.Filter{}, o); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	_, err := l.Progress(t.Context(), "none")
	_, err2 := l.Resume(t.Context(), "none")
	_, err3 := l.Cancel(t.Context(), "none", "ada", "r")
	_, _, err4 := l.Show(t.Context(), "none")
	_, _, err5 := l.List(t.Context(), deadletter.Filter{State: "lost"})
	_, err6 := l.Discard(t.Context(), deadletter.Filter{}, "", "")
	for i, err := range []error{err, err2, err3, err4, err5, err6} {
		if err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%d: %v", i, err)
		}
	}
	want(t, []int{g.count(t, "select count(*) from once_deadletter_redrive"), g.count(t, "select count(*) from once_audit")}, []int{0, 0})
}

// TestRedriveBeyondRetention: a letter whose receiver may have forgotten its message is left, and told, unless it is asked for.
func TestRedriveBeyondRetention(t *testing.T) {
	testenv.Both(t)
	on(t, testRedriveBeyondRetention)
}

func testRedriveBeyondRetention(t *testing.T, g *fixture) {
	uids := g.buryMany(t, 3)
	g.exec(t, "update once_deadletter set first_failed_at = AGO(?) where uid = ?", (8 * 24 * time.Hour).Microseconds(), uids[0])
	g.exec(t, "update once_deadletter set first_failed_at = AGO(?) where uid = ?", (2 * time.Hour).Microseconds(), uids[1])
	dry := g.redrive(t, deadletter.Filter{}, deadletter.RedriveOptions{DryRun: true, Retain: time.Hour})
	want(t, []int64{dry.Total, dry.Left}, []int64{1, 2})
	r := g.redrive(t, deadletter.Filter{}, signed)
	want(t, []int64{r.Total, r.Left}, []int64{2, 1})
	o := signed
	o.BeyondRetention = true
	r = g.redrive(t, deadletter.Filter{}, o)
	want(t, []int64{r.Total, r.Left}, []int64{1, 0})
}

// TestRedrivesAtOnce: two redrives at the same time choose each letter once, and processes apply each once.
func TestRedrivesAtOnce(t *testing.T) {
	testenv.Prove(t)
	on(t, testRedrivesAtOnce)
}

func testRedrivesAtOnce(t *testing.T, g *fixture) {
	const letters = 60
	g.buryMany(t, letters)
	var all sync.WaitGroup
	var mu sync.Mutex
	var total int64
	applied := map[string]int{}
	for range 2 {
		all.Go(func() {
			r, err := g.letters().Redrive(t.Context(), deadletter.Filter{}, signed)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += r.Total
		})
		all.Go(func() {
			for until := time.Now().Add(patience); time.Now().Before(until); breathe() {
				due, err := letter.Due(t.Context(), g, letter.OriginInbox, "billing", 10, letter.Except{})
				if err != nil {
					t.Error(err)
					return
				}
				for _, l := range due {
					if g.take(t, l.UID, nil) {
						mu.Lock()
						applied[l.UID]++
						mu.Unlock()
					}
				}
				mu.Lock()
				done := len(applied) == letters
				mu.Unlock()
				if done {
					return
				}
			}
			t.Error("the letters are not applied")
		})
	}
	all.Wait()
	for uid, n := range applied {
		if n != 1 {
			t.Errorf("%s was applied %d times", uid, n)
		}
	}
	want(t, []any{total, len(applied)}, []any{letters, letters})
}

// TestCanaryDecidesAboutTheRest: the other letters follow when the first one was applied, and stay if it has failed.
func TestCanaryDecidesAboutTheRest(t *testing.T) {
	testenv.Both(t)
	on(t, testCanary)
}

func testCanary(t *testing.T, g *fixture) {
	uids := g.buryMany(t, 4)
	o := signed
	o.Canary = true
	run := func(judge func(uid string)) (r deadletter.Redrive) {
		t.Helper()
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() {
			var err error
			r, err = g.letters().Redrive(ctx, deadletter.Filter{}, o)
			ended <- err
		}()
		due := g.waitDue(t)
		want(t, len(due), 1)
		judge(due[0])
		must(t, <-ended)
		return r
	}
	r := run(func(uid string) {
		must(t, letter.Again(t.Context(), g, uid, letter.Attempt{Error: "still unknown"}))
	})
	want(t, g.progress(t, r.UID), "stopped total 1 waiting 0 applied 0 failed 1 discarded 0")
	want(t, r.Canary, uids[0])
	if t.Failed() {
		return
	}
	r = run(func(uid string) { want(t, g.take(t, uid, nil), true) })
	want(t, g.progress(t, r.UID), "running total 4 waiting 3 applied 1 failed 0 discarded 0")
	want(t, g.audit(t), []string{"ada redrive deadletter: repaired", "ada redrive deadletter: repaired", "ada redrive deadletter: repaired"}) // begun, stopped, begun
}

// waitDue waits until a letter is due.
func (g *fixture) waitDue(t *testing.T) (uids []string) {
	t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); breathe() {
		due, err := letter.Due(t.Context(), g, letter.OriginInbox, "billing", 10, letter.Except{})
		must(t, err)
		for _, l := range due {
			uids = append(uids, l.UID)
		}
		if len(uids) > 0 {
			return uids
		}
	}
	t.Fatal("no letter is due")
	return nil
}

// TestCancelOfARedrive: what was not tried yet waits for a person again, and nothing else changes. A canary that waits is given up.
func TestCancelOfARedrive(t *testing.T) {
	testenv.Both(t)
	on(t, testCancel)
}

func testCancel(t *testing.T, g *fixture) {
	uids := g.buryMany(t, 4)
	r := g.redrive(t, deadletter.Filter{}, signed)
	want(t, g.take(t, uids[0], nil), true)
	must(t, letter.Again(t.Context(), g, uids[1], letter.Attempt{Error: "no"}))
	for range 2 {
		_, err := g.letters().Cancel(t.Context(), r.UID, "bob", "wrong letters")
		must(t, err)
		want(t, g.progress(t, r.UID), "cancelled total 4 waiting 0 applied 1 failed 1 discarded 0")
	}
	want(t, g.take(t, uids[2], nil), false)
	_, err := g.letters().Resume(t.Context(), r.UID)
	must(t, err)
	want(t, g.take(t, uids[2], nil), false)
	want(t, g.audit(t), []string{"ada redrive deadletter: repaired", "bob cancel deadletter: wrong letters"})

	o := signed
	o.Canary = true
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := g.letters().Redrive(ctx, deadletter.Filter{}, o)
		ended <- err
	}()
	want(t, g.waitDue(t), uids[1:2])
	stop()
	if err := <-ended; err == nil {
		t.Error("a redrive that was interrupted is complete")
	}
	open, err := g.letters().Redrives(t.Context())
	must(t, err)
	want(t, []any{len(open), open[0].Canary}, []any{1, uids[1]})
	_, err = g.letters().Cancel(t.Context(), open[0].UID, "bob", "wrong letters")
	must(t, err)
	want(t, g.take(t, uids[1], nil), false)
}

// faulty is a database that fails in the middle: after it has counted so many commits, none succeeds.
type faulty struct {
	sqlplane.Database

	commits int
}

var errBroken = errors.New("broken")

func (f *faulty) Within(ctx context.Context, level store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	if f.commits--; f.commits < 0 {
		return f.Database.Within(ctx, level, func(ctx context.Context, r sqlplane.Runner) error {
			if err := fn(ctx, r); err != nil {
				return err
			}
			return errBroken
		})
	}
	return f.Database.Within(ctx, level, fn)
}

// TestRedriveResumed: a redrive of several pages that ends in the middle goes on behind the last page, at its rate.
func TestRedriveResumed(t *testing.T) {
	testenv.Prove(t)
	t.Run("pgxstore", func(t *testing.T) { t.Parallel(); testRedriveResumed(t, newPgx(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); testRedriveResumed(t, newOn(t, harness.SQLite)) })
}

func testRedriveResumed(t *testing.T, g *fixture) {
	const letters = 2100
	g.buryMany(t, letters)
	o := signed
	o.Rate = 0.1
	_, err := deadletter.New(&faulty{g.Database, 2}, deadletter.Config{}).Redrive(t.Context(), deadletter.Filter{}, o) // the row, and one page
	if !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	open, err := g.letters().Redrives(t.Context())
	must(t, err)
	want(t, []any{len(open), open[0].Total}, []any{1, 1000})
	r, err := g.letters().Resume(t.Context(), open[0].UID)
	must(t, err)
	want(t, []any{r.Total, r.Waiting, r.State}, []any{letters, letters, "running"})
	at := g.spread(t, r.UID)
	want(t, []int{len(at), at[999], at[1000], at[2099]}, []int{letters, 9990, 10000, 20990})
}
