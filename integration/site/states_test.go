package site_test

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

var update = flag.Bool("update", false, "write the pictures of docs/")

const docs = "../../docs"

// machine is a state machine, and where its states stand in the picture.
type machine struct {
	file, title   string
	width, height float64
	states        []state
	ways          []way
	all           string // where the constants of its states are, and how they begin
	prefix        string
}

type state struct {
	name  string
	class string // begins, works, waits, person, ends
	x, y  float64
}

// way is an arrow. A bend moves its middle to the left of its direction; a way from a state to itself is a loop above it, or below with a negative bend.
type way struct {
	from, to, why string
	bend          float64
	dx, dy        float64 // of the text
}

const discarded = string(deadletter.StateDiscarded)

// machines have the names of their states from the code.
var machines = []machine{
	{
		file: "operation", title: "The states of an operation", width: 760, height: 330, all: "../../store/store.go", prefix: "State",
		states: []state{
			{store.StateAbsent.String(), "begins", 90, 60}, {store.StateRunning.String(), "works", 380, 60}, {store.StateWaiting.String(), "waits", 530, 165},
			{store.StateUnknown.String(), "person", 660, 60}, {store.StateDone.String(), "ends", 380, 280}, {operate.StateExpired, "waits", 90, 280},
		},
		ways: []way{
			{"absent", "running", "the first write of a lease", -24, 0, 2}, {"running", "absent", "fails in the first phase", -24, 0, 0},
			{"running", "waiting", "the work fails after a phase", -18, 56, -12}, {"waiting", "running", "a process continues", -18, -14, 18},
			{"running", "unknown", "an answer is lost", -24, 0, 2}, {"unknown", "running", "decision: run again", -24, 0, 0},
			{"unknown", "done", "decision: it has happened", -100, 24, 10}, {"running", "done", "the result commits", 0, 0, 34},
			{"absent", "done", "an ordinary operation: one commit", 0, 0, -8},
			{"done", "expired", "the retention is over", 0, 0, 0}, {"expired", "absent", "a retry runs again", 0, 0, 50},
		},
	},
	{
		file: "message", title: "The states of a message in an outbox", width: 760, height: 270, all: "../../outbox/entry.go", prefix: "State",
		states: []state{
			{string(outbox.StateBlocked), "waits", 180, 60}, {string(outbox.StateWaiting), "begins", 180, 220}, {string(outbox.StateFailing), "works", 430, 60},
			{string(outbox.StateStopped), "person", 660, 60}, {string(outbox.StateDelivered), "ends", 430, 220},
		},
		ways: []way{
			{"waiting", "blocked", "an earlier message fails", -26, -76, 0}, {"blocked", "waiting", "the earlier message is done", -26, 86, -12},
			{"waiting", "failing", "an attempt fails", 0, 34, 22}, {"failing", "failing", "another attempt fails", 1, 0, 0}, {"failing", "stopped", "the last attempt fails", -24, 0, 2},
			{"stopped", "failing", "resume, redrive", -24, 0, 0}, {"failing", "delivered", "confirmed", 0, 40, 0}, {"waiting", "delivered", "confirmed", 0, 0, 0},
			{"stopped", "delivered", "skip: a marker", 0, 40, 20},
		},
	},
	{
		file: "inbox", title: "The states of a message in an inbox", width: 760, height: 295, all: "../../inbox/event.go", prefix: "State",
		states: []state{
			{string(inbox.StateNew), "begins", 120, 150}, {string(inbox.StateFailing), "waits", 120, 40}, {string(inbox.StateParked), "waits", 380, 60}, {string(inbox.StateApplied), "ends", 660, 150},
			{string(inbox.StateDeadLettered), "person", 380, 240}, {discarded, "ends", 660, 258},
		},
		ways: []way{
			{"new", "failing", "an attempt fails", 20, 56, -14}, {"failing", "new", "delivered again", 20, -52, 0}, {"new", "applied", "its turn, and the handler succeeds", 0, -100, 0}, {"new", "parked", "before its turn", 0, 0, -10}, {"parked", "applied", "its turn", 0, 20, -8},
			{"new", "dead_lettered", "given up", 0, -30, 12}, {"parked", "dead_lettered", "given up", 0, 0, 30}, {"dead_lettered", "applied", "redrive", 0, 0, -12},
			{"dead_lettered", discarded, "an operator discards it", 0, 0, 14},
		},
	},
	{
		file: "delivery", title: "The states of a webhook at an endpoint", width: 760, height: 165, all: "../../webhook/delivery.go", prefix: "Delivery",
		states: []state{
			{string(webhook.DeliveryDelivered), "ends", 90, 100}, {string(webhook.DeliveryWaiting), "begins", 380, 100}, {string(webhook.DeliveryStopped), "person", 660, 100},
		},
		ways: []way{
			{"waiting", "waiting", "refused, or the endpoint is disabled", 1, 0, 0}, {"waiting", "delivered", "the endpoint answers 2xx", -24, 0, 0}, {"delivered", "waiting", "an operator sends it again", -24, 0, 0},
			{"waiting", "stopped", "the last attempt fails", -24, 0, 0}, {"stopped", "waiting", "send again, recover", -24, 0, 0},
		},
	},
	{
		file: "saga", title: "The states of a saga", width: 760, height: 330, all: "../../saga/status.go", prefix: "State",
		states: []state{
			{saga.StateWaiting, "begins", 90, 70}, {saga.StateRunning, "works", 380, 70}, {saga.StateStuck, "person", 660, 70},
			{saga.StateCompleted, "ends", 250, 190}, {saga.StateCompensated, "ends", 520, 190}, {saga.StateForgotten, "ends", 380, 290},
		},
		ways: []way{
			{"waiting", "running", "due: a node runs the saga", -24, 0, 0}, {"running", "waiting", "a wait, or a retry", -24, 0, 0},
			{"running", "stuck", "no rule decides", -24, 0, 0}, {"stuck", "running", "an operator decides", -24, 0, 0},
			{"running", "completed", "the flow ends", 0, -44, 0}, {"running", "compensated", "all steps are undone", 0, 86, -4},
			{"completed", "forgotten", "forget", 0, -26, 0}, {"compensated", "forgotten", "forget", 0, 26, 0},
			{"running", "running", "the node dies: another node takes over", 1, 0, 0},
		},
	},
	{
		file: "breaker", title: "The states of a circuit breaker", width: 760, height: 165,
		states: []state{{"closed", "ends", 90, 100}, {"open", "person", 380, 100}, {"half-open", "waits", 660, 100}},
		ways: []way{
			{"closed", "open", "half of 20+ calls fail", 0, 0, 0}, {"open", "half-open", "after 5 s", -24, 0, 0}, {"half-open", "open", "the test call fails", -24, 0, 0},
			{"half-open", "closed", "the test call succeeds", 70, 0, 0},
		},
	},
}

// TestStatesAreDrawn: docs/states.md has a picture of each state machine. It has every state that the code names, and is what -update writes.
func TestStatesAreDrawn(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "states.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		picture := m.svg(t)
		file := filepath.Join(docs, "states-"+m.file+".svg")
		if *update {
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, picture) {
			t.Errorf("%s is not what the code says: %v\nTry: go test -run TestStatesAreDrawn ./site -update", file, err)
		}
		if !bytes.Contains(page, []byte("](./states-"+m.file+".svg)")) {
			t.Errorf("docs/states.md does not show %s", file)
		}
		if m.all == "" {
			continue
		}
		source, err := os.ReadFile(m.all)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`(?m)^\t`+m.prefix+`[A-Z]\w*(?: +\w+)? += "(\w+)"|^\t\treturn "(\w+)"$`).FindAllSubmatch(source, -1)
		if len(names) < 3 {
			t.Errorf("vacuous: %d states in %s", len(names), m.all)
		}
		for _, n := range names {
			if name := string(n[1]) + string(n[2]); !m.has(name) {
				t.Errorf("%s has no state %q, which %s names", file, name, m.all)
			}
		}
	}
}

func (m machine) has(name string) bool {
	for _, s := range m.states {
		if s.name == name {
			return true
		}
	}
	return false
}

const statesStyle = `.card{fill:#fff;stroke:#d5dbe0}.title{font:600 15px system-ui,sans-serif;fill:#1c2429}.why{font:12px system-ui,sans-serif;fill:#4a555c;text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:5px;stroke-linejoin:round}` +
	`.name{font:600 14px system-ui,sans-serif;fill:#1c2429;text-anchor:middle}.way{fill:none;stroke:#7b878e;stroke-width:1.5}.head{fill:#7b878e}` +
	`rect{stroke-width:1.5}.begins{fill:#e8eef5;stroke:#6f8db0}.works{fill:#e3f0fb;stroke:#2f7dc0}.waits{fill:#fbf3df;stroke:#b58a1f}.person{fill:#fbe6e3;stroke:#c0503f}.ends{fill:#e3f4ec;stroke:#2c8a63}` +
	`@media(prefers-color-scheme:dark){.card{fill:#1b1f23;stroke:#3a4248}.title,.name{fill:#e8edf0}.why{fill:#b6c0c6;stroke:#1b1f23}.way{stroke:#8b979e}.head{fill:#8b979e}` +
	`.begins{fill:#26313d;stroke:#7d9bbd}.works{fill:#173247;stroke:#57a5e6}.waits{fill:#3a3118;stroke:#d3aa46}.person{fill:#43221d;stroke:#e27b6a}.ends{fill:#153427;stroke:#4fb78a}}`

// svg is the picture, light and dark.
func (m machine) svg(t *testing.T) []byte {
	t.Helper()
	at := map[string]state{}
	for _, s := range m.states {
		at[s.name] = s
	}
	var b bytes.Buffer
	var says []string
	for _, w := range m.ways {
		says = append(says, fmt.Sprintf("%s to %s: %s", w.from, w.to, w.why))
	}
	const top = 34
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-labelledby="t d">`+"\n", m.width, m.height+top, m.width, m.height+top)
	fmt.Fprintf(&b, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s.</desc>\n<style>%s</style>\n", html.EscapeString(m.title), html.EscapeString(strings.Join(says, ". ")), statesStyle)
	b.WriteString(`<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect class="card" x="1" y="1" width="%g" height="%g" rx="10"/><text class="title" x="18" y="28">%s</text>`+"\n<g transform=\"translate(0 %d)\">\n", m.width-2, m.height+top-2, html.EscapeString(m.title), top)
	var texts bytes.Buffer
	for _, w := range m.ways {
		from, ok := at[w.from]
		to, is := at[w.to]
		if !ok || !is {
			t.Fatalf("%s: no state %q or %q", m.file, w.from, w.to)
		}
		path, x, y := w.path(from, to)
		fmt.Fprintf(&b, `<path class="way" marker-end="url(#a)" d="%s"/>`+"\n", path)
		fmt.Fprintf(&texts, `<text class="why" x="%.0f" y="%.0f">%s</text>`+"\n", x+w.dx, y+w.dy+4, html.EscapeString(w.why))
	}
	for _, s := range m.states {
		fmt.Fprintf(&b, `<rect class="%s" x="%g" y="%g" width="%g" height="%g" rx="9"/><text class="name" x="%g" y="%g">%s</text>`+"\n", s.class, s.x-half(s), s.y-tall, 2*half(s), 2.0*tall, s.x, s.y+5, s.name)
	}
	b.Write(texts.Bytes())
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

const tall = 18.0 // half of the height of a box

func half(s state) float64 { return math.Max(50, 4.6*float64(len(s.name))+12) }

// path is the arrow, and where its text stands.
func (w way) path(from, to state) (path string, x, y float64) {
	if w.from == w.to {
		return fmt.Sprintf("M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f", from.x-26, from.y-tall, from.x-26, from.y-tall-34, from.x+26, from.y-tall-34, from.x+26, from.y-tall-1), from.x, from.y - tall - 32
	}
	dx, dy := to.x-from.x, to.y-from.y
	long := math.Hypot(dx, dy)
	cx, cy := (from.x+to.x)/2-dy/long*w.bend, (from.y+to.y)/2+dx/long*w.bend
	ax, ay := edge(from, cx, cy)
	bx, by := edge(to, cx, cy)
	return fmt.Sprintf("M%.0f %.0fQ%.0f %.0f %.0f %.0f", ax, ay, cx, cy, bx, by), (ax + 2*cx + bx) / 4, (ay + 2*cy + by) / 4
}

// edge is where a line from the middle of a box to a point leaves the box.
func edge(s state, x, y float64) (float64, float64) {
	dx, dy := x-s.x, y-s.y
	scale := math.Min((half(s)+2)/math.Max(math.Abs(dx), 0.001), (tall+2)/math.Max(math.Abs(dy), 0.001))
	return s.x + dx*scale, s.y + dy*scale
}
