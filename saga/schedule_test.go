package saga_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// run runs one schedule. It returns the points that were passed, and how many faults have struck.
func (sc scenario) run(t *testing.T, plan ...strike) (points []string, hits int) {
	t.Helper()
	w := &world{t: t, sc: sc, db: memstore.New(), plan: plan, effects: map[string][]string{}, answers: map[string]string{}, inputs: map[string]string{}, refuses: map[string]bool{}}
	began := time.Now()
	told := w.starts("A")
	if len(plan) == 1 && plan[0].fault == lostApplied && sc.waits == 0 && time.Since(began) >= testTTL {
		t.Errorf("what was lost and applied is found out after %v, when the lease is over", time.Since(began))
	}
	for n := 0; n < 4 && w.record().State == store.StateAbsent && !told.final; n++ {
		if e := w.entries(); len(e) > 0 {
			t.Errorf("there is %v, and nothing is stored of it", e)
		}
		told = w.starts(fmt.Sprintf("A%d", n+2)) // the starter does not know, and asks again
	}
	w.finish()
	state := w.record().State
	w.judge(told)
	<-time.After(3 * lateness) // what is late has come
	if now := w.record().State; now != state {
		t.Errorf("the saga was %s, and is %s later", state, now)
	}
	points, hits = w.points, w.hits
	w.plan = nil
	again := w.starts("Z")
	w.judge(again)
	if told.final && !told.stuck && again.String() != told.String() {
		t.Errorf("the starter was told %v, and later %v", told, again)
	}
	if t.Failed() {
		t.Fatalf("%v, %v:\n%s\n%v", sc, plan, strings.Join(w.story, "\n"), w.entries())
	}
	return points, hits
}

// answer is what a starter was told.
type answer struct {
	value   string
	failure *once.Failure
	stuck   bool
	none    bool // nothing was started
	final   bool
}

func (a answer) String() string {
	if a.failure != nil {
		return "failure " + a.failure.Code
	}
	return fmt.Sprintf("%q, stuck %t, none %t, final %t", a.value, a.stuck, a.none, a.final)
}

// starts has a process start the saga and wait for its end, or die.
func (w *world) starts(name string) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	p := w.node(name, cancel)
	d := w.sc.definition(w, p)
	p.r = saga.NewRunner[*memstore.Tx](p, saga.Config{
		TTL: testTTL, StepTimeout: time.Minute, Attempts: 4, UndoAttempts: 6, Backoff: time.Second, MaxBackoff: 2 * time.Second, Every: time.Second,
		Retain: once.Forever, Observer: saga.Log(quiet),
	}, d)
	var value string
	var err error
	if w.sc.caller {
		value, err = startedByCaller(ctx, w, p, d)
	} else {
		value, err = saga.Do(ctx, p.r, d, sagaID, "input")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellf("%s is told %q, %v", name, value, err)
	switch {
	case p.dead.Load():
		return a
	case err == nil:
		return answer{value: value, final: true}
	case errors.As(err, &a.failure):
		a.final = true
	case once.CodeOf(err) == once.CodeUnknown:
		a.final, a.stuck = true, true
	case once.CodeOf(err) == once.CodeUnavailable && once.EffectOf(err) == once.EffectNotApplied:
		a.none = true
	default:
		w.t.Errorf("the starter is told %v", err)
	}
	return a
}

func startedByCaller(ctx context.Context, w *world, p *process, d *saga.Definition[string, string]) (string, error) {
	tx := w.db.BeginTx()
	defer tx.Rollback()
	h, err := saga.Start(ctx, p.r, tx, d, sagaID, "input")
	if err != nil {
		return "", err
	}
	if err := tx.Commit(); err != nil {
		return "", err
	}
	return h.Result(ctx)
}

func (w *world) record() store.Record {
	rec, err := w.db.Read(context.Background(), recordID)
	if err != nil {
		w.t.Error(err)
	}
	return rec
}

// finish has another node bring the saga to its end.
func (w *world) finish() {
	for n := 0; n < 4 && w.unfinished(); n++ {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		p := w.node(fmt.Sprintf("B%d", n), cancel)
		go func() {
			for w.unfinished() && ctx.Err() == nil {
				<-time.After(time.Second)
			}
			cancel()
		}()
		if err := p.r.Run(ctx); err != nil {
			w.t.Error(err)
		}
		cancel()
	}
	if w.unfinished() {
		w.t.Errorf("the saga does not come to its end: %+v", w.record())
	}
}

func (w *world) unfinished() bool {
	rec := w.record()
	return rec.State == store.StateRunning || rec.State == store.StateWaiting
}

// judge compares what has happened with what is stored, and with what the starter was told.
func (w *world) judge(told answer) {
	did, undid, order := w.counted()
	rec := w.record()
	if rec.State == store.StateAbsent {
		if len(order) > 0 || told.final {
			w.t.Errorf("nothing is stored, the starter was told %v, and there is %v", told, order)
		}
		return
	}
	if told.none {
		return // at that time it was so: what was lost then has come later
	}
	status, err := w.node("judge", func() {}).r.Status(context.Background(), sagaID)
	if err != nil {
		w.t.Fatal(err)
	}
	for step, n := range did {
		if n > 1 {
			w.t.Errorf("step %s has taken effect %d times", step, n)
		}
		if undid[step] > n {
			w.t.Errorf("step %s was undone %d times, and done %d times", step, undid[step], n)
		}
	}
	for step := range undid {
		if did[step] == 0 {
			w.t.Errorf("step %s was undone, and never done", step)
		}
	}
	known := map[string]string{}
	for _, s := range status.Steps {
		known[s.Step] = s.State
		want := map[string][2]int{"done": {1, 0}, "failed": {0, 0}, "undone": {1, 1}}
		if n, is := want[s.State]; is && (did[s.Step] != n[0] || undid[s.Step] != n[1]) && (s.State != "undone" || w.sc.contract != barrier || did[s.Step] != undid[s.Step]) {
			w.t.Errorf("step %s is %s, was done %d times and undone %d times", s.Step, s.State, did[s.Step], undid[s.Step])
		}
	}
	for step := range did {
		if known[step] == "" && did[step] != undid[step] && w.sc.contract != undoless {
			w.t.Errorf("step %s has an effect, and nothing is stored of it", step)
		}
	}
	w.judgeOrder(order)
	w.judgeEnd(told, status, did, undid)
}

// judgeOrder: what is undone is undone in reverse.
func (w *world) judgeOrder(order []string) {
	var done []string
	for _, what := range order {
		verb, step, _ := strings.Cut(what, " ")
		if verb == "do" {
			done = append(done, step)
			continue
		}
		i := slices.Index(done, step)
		if i < 0 {
			continue
		}
		for _, later := range done[i+1:] {
			if w.sc.kinds[strings.Index("s1s2s3s4s5", step)/2] != 'b' && later != "other" && w.sc.contract != undoless {
				w.t.Errorf("step %s is undone before %s: %v", step, later, order)
			}
		}
		done = slices.Delete(done, i, i+1)
	}
}

// judgeEnd compares the end with the effects.
func (w *world) judgeEnd(told answer, status saga.Status, did, undid map[string]int) {
	switch status.State {
	case "completed":
		for i := range w.sc.kinds {
			step := stepName(i)
			if w.sc.fallback && w.sc.no == i+1 && did[step] == 0 {
				step = "other"
			} else if w.sc.fallback && w.sc.no == i+1 && did["other"] != undid["other"] {
				w.t.Errorf("both %s and the other step have taken effect", step)
			}
			if did[step] != 1 || undid[step] != 0 {
				w.t.Errorf("completed: step %s was done %d times and undone %d times", step, did[step], undid[step])
			}
		}
		if told.final && (told.failure != nil || told.stuck) {
			w.t.Errorf("completed, and the starter was told %v", told)
		}
	case "compensated":
		for step, n := range did {
			kept := w.sc.contract == undoless && step != "other" && w.sc.kinds[step[1]-'1'] == 'c'
			if undid[step] != n && !kept {
				w.t.Errorf("compensated: step %s was done %d times and undone %d times", step, n, undid[step])
			}
		}
		if told.final && told.failure == nil {
			w.t.Errorf("compensated, and the starter was told %v", told)
		}
		if p := w.sc.pivot; p > 0 && did[stepName(p-1)] > 0 {
			w.t.Error("undone behind the pivot")
		}
		if !w.cancels && w.sc.no == 0 && len(w.plan) < 2 && w.sc.contract != barrier {
			w.t.Errorf("nothing has failed for good, and the saga was undone: %s", status.Turned)
		}
	case "stuck":
		if told.final && !told.stuck {
			w.t.Errorf("stuck, and the starter was told %v", told)
		}
		if w.sc.contract != unsaid && w.sc.pivot == 0 {
			w.t.Errorf("stuck: %s", status.Stuck)
		}
	default:
		w.t.Errorf("the saga is %s", status.State)
	}
}

// singles are the schedules of a scenario with one fault at each point.
func (sc scenario) singles(t *testing.T) (n int) {
	t.Helper()
	points, _ := sc.run(t)
	for at := 1; at <= len(points); at++ {
		for _, f := range faultsAt(points[at-1]) {
			sc.run(t, strike{at, f})
			n++
		}
	}
	return n + 1
}

// pairs are those with two faults.
func (sc scenario) pairs(t *testing.T, lot func() bool) (n int) {
	t.Helper()
	points, _ := sc.run(t)
	for at := 1; at <= len(points); at++ {
		for _, f := range faultsAt(points[at-1]) {
			first := strike{at, f}
			behind, _ := sc.run(t, first)
			for then := at + 1; then <= len(behind); then++ {
				for _, f := range faultsAt(behind[then-1]) {
					if lot != nil && !lot() {
						continue
					}
					sc.run(t, first, strike{then, f})
					n++
				}
			}
		}
	}
	return n
}

func faultsAt(point string) []fault {
	if strings.HasPrefix(point, "swap") || point == "commit" {
		return faultsOfCommits
	}
	return faultsOfRequests
}

// scenarios are all sagas of up to most steps, and what their steps may say.
func scenarios(most int) (list []scenario) {
	for _, kinds := range []string{"t", "c", "b", "tc", "ct", "cc", "bt", "tct", "ctc", "tctc", "tbctc"} {
		if len(kinds) > most {
			continue
		}
		says := []string{deduped}
		if strings.Contains(kinds, "c") {
			says = []string{deduped, checked, barrier, undoless, unsaid, repeated}
		}
		for _, contract := range says {
			base := scenario{kinds: kinds, contract: contract}
			list = append(list, base)
			for no := 1; no <= len(kinds); no++ {
				if kinds[no-1] == 'b' {
					continue
				}
				sc := base
				sc.no = no
				list = append(list, sc)
				sc.only = true
				list = append(list, sc)
				sc.fallback = true
				list = append(list, sc)
			}
		}
	}
	return append(list,
		scenario{kinds: "ttt", contract: deduped, last: true}, scenario{kinds: "ttt", contract: deduped, last: true, no: 3},
		scenario{kinds: "tct", contract: deduped, caller: true}, scenario{kinds: "tct", contract: deduped, caller: true, no: 3}, scenario{kinds: "ct", contract: undoless, caller: true},
		scenario{kinds: "tct", contract: deduped, pivot: 2}, scenario{kinds: "tct", contract: checked, pivot: 2, no: 3}, scenario{kinds: "tct", contract: repeated, pivot: 2, no: 1},
		scenario{kinds: "tct", contract: undoless, pivot: 2}, scenario{kinds: "tt", contract: deduped, pivot: 1, no: 2}, scenario{kinds: "cct", contract: deduped, pivot: 2},
		scenario{kinds: "ttt", contract: deduped, waits: 2}, scenario{kinds: "tct", contract: deduped, waits: 3, no: 3})
}

// TestEverySchedule: one fault at each commit and request of each scenario of up to five steps. A saga ends with all effects, with all of them
// undone in reverse, or stuck with what is open; each effect is there once; and the starter was told nothing else.
func TestEverySchedule(t *testing.T) {
	each(t, scenarios(3), leastShort, func(t *testing.T, sc scenario) int { t.Helper(); return sc.singles(t) })
}

// TestEveryLongSchedule is TestEverySchedule for four and five steps.
func TestEveryLongSchedule(t *testing.T) {
	testenv.Prove(t)
	long := slices.DeleteFunc(scenarios(5), func(sc scenario) bool { return len(sc.kinds) < 4 })
	each(t, long, leastLong, func(t *testing.T, sc scenario) int { t.Helper(); return sc.singles(t) })
}

// TestTwoFaults: two faults at any two commits and requests, of sagas of up to three steps. All pairs of a few sagas, and one of a number of
// pairs of the others; with ONCE_TORTURE=long, all pairs of all.
func TestTwoFaults(t *testing.T) {
	testenv.Prove(t)
	n, long := 0, os.Getenv("ONCE_TORTURE") == "long"
	each(t, scenarios(3), leastPairs, func(t *testing.T, sc scenario) int {
		t.Helper()
		n++
		count, whole := n, long || len(sc.kinds) == 1 || n%32 == 0
		return sc.pairs(t, func() bool { count++; return whole || count%lotOfPairs == 0 })
	})
}

// These numbers may not fall.
const (
	leastShort, leastLong, leastPairs = 13_000, 10_500, 45_000
	lotOfPairs                        = 48
)

func each(t *testing.T, list []scenario, least int, run func(*testing.T, scenario) int) {
	t.Helper()
	total, ran := 0, 0
	for _, sc := range list {
		t.Run(sc.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran++
				total += run(t, sc)
			})
		})
	}
	testenv.Count("schedules", total)
	testenv.Reportf(t, "%d schedules", total)
	if total < least && ran == len(list) && !t.Failed() {
		t.Errorf("%d schedules have run, at least %d must", total, least)
	}
}
