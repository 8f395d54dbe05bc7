package oncetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// intent is what one key stands for.
type intent struct {
	key     string
	request any
	other   bool // another request than the one that has made the key known
}

// answer is what a call has returned.
type answer struct {
	final   bool   // a client does not try again
	success bool   // the work is done
	kind    string // what kind of an answer it is: all answers to a request like this one are of it
	text    string // all of it: all answers to one key are the same
}

// settings are what a test says beside how to start and what to ask for.
type settings struct {
	database sqlplane.Database
	count    map[string]func() int
	ignore   []string
	skip     []Kind
}

// lab tries one handler.
type lab struct {
	settings

	tb     testing.TB
	start  func(p *Process) func(ctx context.Context, in intent) answer
	intend func() intent
	other  func(in intent) (other intent, ok bool) // nil: there is none
	leased bool

	process   *Process // the one that lives
	call      func(ctx context.Context, in intent) answer
	providers []*Provider
	tables    []table // once they are known
	known     bool
	taught    effects
	sums      map[string]bool // the effects that are sums
	unstable  map[string]bool // those that two requests without a fault do not agree in
	kind      string          // of the right answer
	tries     int             // until a key counts as stuck
	takeovers int64
}

const (
	callers   = 8
	most      = 1000 // faults of one kind
	patience  = 40   // tries
	impatient = 6    // tries, once a key was stuck
	longest   = 30 * time.Second
)

// run tries all kinds.
func (l *lab) run() {
	l.tb.Helper()
	l.tries = patience
	l.unstable, l.sums = map[string]bool{}, map[string]bool{}
	l.next()
	defer func() { l.process.die() }()
	if !l.teach() {
		return
	}
	l.subtest("duplicate", func() ([]string, string) { return l.duplicate(), "" })
	l.probe(AtOnce, l.atOnce)
	if l.other != nil {
		l.probe(AnotherBody, l.anotherBody)
	}
	l.faults(StoreFails, "store fails at call %d")
	l.faults(StatementRefused, "statement %d is refused")
	l.faults(WriteNotSent, "write %d is not sent")
	l.faults(WriteNotAnswered, "write %d is not answered")
	l.faults(Death, "dies after write %d")
}

// next starts the next process.
func (l *lab) next() {
	l.process = &Process{lab: l, died: make(chan struct{})}
	l.call = l.start(l.process)
}

// teach learns what is right from requests without a fault. The first one may make what all later ones find.
func (l *lab) teach() bool {
	l.tb.Helper()
	var learned [3]effects
	for i := range learned {
		before := l.count()
		a, _ := l.send(l.intend())
		if !a.final {
			l.tb.Errorf("oncetest: a request without any fault is answered %s", a.text)
			return false
		}
		l.kind, learned[i] = a.kind, l.count().since(before)
	}
	l.taught = learned[1]
	for name, n := range learned[2] {
		if l.taught[name] != n && l.sums[name] {
			l.unstable[name] = true
		}
	}
	for name, n := range l.taught {
		if learned[2][name] != n && l.sums[name] {
			l.unstable[name] = true
		}
	}
	maps.DeleteFunc(l.taught, func(name string, _ float64) bool { return l.unstable[name] })
	maps.DeleteFunc(learned[2], func(name string, _ float64) bool { return l.unstable[name] })
	switch {
	case !maps.Equal(l.taught, learned[2]):
		l.tb.Errorf("oncetest: two requests without any fault have different effects: %v, and %v. Try: Ignore for what differs", l.taught, learned[2])
	case len(l.taught) == 0:
		l.tb.Errorf("oncetest: a request is answered %s, and has no effect that is counted. Try: Store or Database for the tables, Count for what is elsewhere", l.kind)
	default:
		return true
	}
	return false
}

// count counts effects.
func (l *lab) count() effects {
	l.tb.Helper()
	e := effects{}
	var err error
	for range 10 { // connections of the pool may be broken
		if e, err = l.countTables(); err == nil {
			break
		}
	}
	if err != nil {
		l.tb.Fatalf("oncetest: the effects cannot be counted: %v", err)
	}
	for name, count := range l.settings.count {
		e[name] = float64(count())
	}
	for i, p := range l.providers {
		name := "effects at the provider"
		if i > 0 {
			name += fmt.Sprint(" ", i+1)
		}
		e[name] = float64(p.Effects())
	}
	maps.DeleteFunc(e, func(name string, _ float64) bool { return l.unstable[name] })
	return e
}

func (l *lab) countTables() (effects, error) {
	e, ctx := effects{}, l.tb.Context()
	db := l.database
	if db == nil && len(l.process.databases) > 0 {
		db = l.process.databases[0]
	}
	if db == nil {
		return e, nil
	}
	if !l.known {
		list, err := tablesOf(ctx, db, l.ignore)
		if err != nil {
			return nil, err
		}
		l.tables, l.known = list, true
		for _, t := range list {
			for _, column := range t.numbers {
				l.sums[t.shown+"."+column] = true
			}
		}
	}
	for _, t := range l.tables {
		if err := e.readTable(ctx, db, t); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// attach has the effects of a provider counted.
func (l *lab) attach(p *Provider) {
	if slices.Contains(l.providers, p) {
		return
	}
	p.mu.Lock()
	p.attached = true
	p.mu.Unlock()
	l.providers = append(l.providers, p)
}

// send makes one call, unless the process dies before it returns.
func (l *lab) send(in intent) (a answer, died bool) {
	if l.process.isDead() {
		l.next()
	}
	p, call := l.process, l.call
	ctx, cancel := context.WithTimeout(l.tb.Context(), longest)
	defer cancel()
	done := make(chan answer, 1)
	go func() { done <- call(ctx, in) }()
	select {
	case a = <-done:
	case <-p.died:
	}
	if p.isDead() {
		return answer{}, true
	}
	return a, false
}

// lapse has all leases be over, as they are after some time: what their owner did when it died is not waited for.
func (l *lab) lapse() {
	for _, db := range l.process.databases {
		s := store.Statement{SQL: dialect.Text(db.Dialect(), "update once_operation set lease_until = AGO(?) where state = 1 and lease_until > NOW"), Args: []any{time.Second.Microseconds()}}
		if n, err := db.Pool().Exec(l.tb.Context(), s); err == nil { // otherwise the next try does it
			l.takeovers += n
		}
	}
}

// settle sends until there is a final answer.
func (l *lab) settle(in intent) (a answer) {
	for try := range l.tries {
		if try > 0 {
			sleep.For(l.tb.Context(), min(time.Millisecond<<try, 50*time.Millisecond))
		}
		if l.process.isDead() {
			l.next()
		}
		l.lapse()
		if a, _ = l.send(in); a.final {
			return a
		}
	}
	l.tries = impatient
	return a
}

// judge sends until there is an answer, and says what is wrong. first is the answer to the call in which there was a fault.
func (l *lab) judge(in intent, first answer, before effects) (wrong []string) {
	a := first
	if !first.final {
		a = l.settle(in)
	}
	if !a.final {
		return []string{"never answered: " + a.text}
	}
	if a.kind != l.kind && a.kind != unknown {
		wrong = append(wrong, fmt.Sprintf("answered %s, and %s without a fault", a.text, l.kind))
	}
	added := l.count().since(before) // a client that has its answer sends no duplicate, so the effects must be there
	if text := l.compare(added, a.kind); text != "" {
		wrong = append(wrong, text)
	}
	if again := l.settle(in); again.text != a.text {
		wrong = append(wrong, fmt.Sprintf("a duplicate is answered %s, and before %s", again.text, a.text))
	}
	if after := l.count().since(before); !maps.Equal(after, added) {
		wrong = append(wrong, fmt.Sprintf("effects after a duplicate: %v, and %v before it", after, added))
	}
	for _, p := range l.providers {
		wrong = append(wrong, p.complaints()...)
	}
	return wrong
}

// compare says what is wrong with effects.
func (l *lab) compare(added effects, kind string) string {
	if kind != unknown {
		if maps.Equal(added, l.taught) {
			return ""
		}
		return fmt.Sprintf("effects: %v, and %v without a fault", added, l.taught)
	}
	for name, n := range added { // a person decides whether there was an effect
		if n > l.taught[name] {
			return fmt.Sprintf("effects: %v, and %v without a fault, although the outcome is unknown", added, l.taught)
		}
	}
	return ""
}

// unknown is the kind of an answer that leaves to a person whether there was an effect.
const unknown = "unknown"

// subtest runs a part of the test. Without a *testing.T its name is in what it says.
func (l *lab) subtest(name string, run func() (wrong []string, skipped string)) {
	l.tb.Helper()
	t, ok := l.tb.(*testing.T)
	if !ok {
		if wrong, _ := run(); len(wrong) > 0 {
			l.tb.Errorf("oncetest: %s: %s", name, strings.Join(wrong, "\n\t"))
		}
		return
	}
	t.Run(name, func(t *testing.T) {
		wrong, skipped := run()
		if len(wrong) > 0 {
			t.Errorf("oncetest: %s", strings.Join(wrong, "\n\t"))
		}
		if skipped != "" {
			t.Skip(skipped)
		}
	})
}

// probe runs a kind that needs no fault.
func (l *lab) probe(kind Kind, run func() []string) {
	if !slices.Contains(l.skip, kind) {
		l.subtest(string(kind), func() ([]string, string) { return run(), "" })
	}
}

// faults runs a kind of faults: at the first call that it could strike, at the second one, until a request has no such call.
func (l *lab) faults(kind Kind, format string) {
	l.tb.Helper()
	if slices.Contains(l.skip, kind) {
		return
	}
	ran, struck := 0, 0
	for n, goOn := 1, true; goOn && n <= most; n++ {
		l.subtest(fmt.Sprintf(format, n), func() (wrong []string, skipped string) {
			ran++
			if wrong, goOn = l.fault(kind, n); !goOn {
				return nil, "a request has no more of them"
			}
			struck++
			return wrong, ""
		})
	}
	switch {
	case ran > 0 && struck == 0:
		l.tb.Errorf("oncetest: no fault of the kind %q has struck. Try: Store and the methods of Process for what connects to the outside, or Skip", kind)
	case l.leased && kind == Death && struck > 1 && l.takeovers == 0:
		l.tb.Error("oncetest: no lease was taken over after a death. Try: Do, for work that is one transaction")
	}
}

// fault makes one call with a fault, and judges.
func (l *lab) fault(kind Kind, n int) (wrong []string, struck bool) {
	before, in := l.count(), l.intend()
	if l.process.isDead() {
		l.next()
	}
	p := l.process
	armed := p.arm(kind, n)
	a, _ := l.send(in)
	struck, where := p.heal(armed)
	if kind == Death && struck {
		p.die() // if no answer has come by which it would have
		a = answer{}
	}
	wrong = l.judge(in, a, before)
	if where != "" && len(wrong) > 0 {
		wrong[0] = where + ": " + wrong[0]
	}
	return wrong, struck
}

// duplicate sends one request twice: judge sends the second one.
func (l *lab) duplicate() []string {
	before, in := l.count(), l.intend()
	a, _ := l.send(in)
	return l.judge(in, a, before)
}

// atOnce sends one request from many callers at the same time.
func (l *lab) atOnce() (wrong []string) {
	before, in := l.count(), l.intend()
	answers := make(chan answer, callers)
	for range callers {
		go func() {
			a, _ := l.send(in)
			answers <- a
		}()
	}
	first := answer{}
	for range callers {
		a := <-answers
		switch {
		case !a.final:
		case !first.final:
			first = a
		case a.text != first.text:
			wrong = append(wrong, fmt.Sprintf("one is answered %s, and another one %s", first.text, a.text))
		}
	}
	return append(slices.Compact(wrong), l.judge(in, first, before)...)
}

// anotherBody sends another request with the key of an earlier one.
func (l *lab) anotherBody() []string {
	before, in := l.count(), l.intend()
	other, ok := l.other(in)
	if !ok {
		return nil
	}
	first := l.settle(in)
	if a, _ := l.send(other); a.success {
		return []string{"another request with the same key is answered " + a.text}
	}
	return l.judge(in, first, before)
}
