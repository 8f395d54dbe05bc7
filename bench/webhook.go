package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// Webhooks to many endpoints through one relay on PostgreSQL. Some endpoints hang, fail or have many waiting deliveries.

// webhookSize is how large the section is.
type webhookSize struct {
	rounds  int
	window  time.Duration
	waiting int // deliveries; ten times as many in the scenarios that ask for it
}

// webhooks has the results of the section.
type webhooks struct {
	Rounds   int           `json:"rounds"`
	Window   time.Duration `json:"window_ns"`
	Waiting  int           `json:"waiting"`
	Rows     []hooked      `json:"rows"`
	Verdicts []verdict     `json:"verdicts"`
	Send     []throughput  `json:"send"`
	Verify   []verified    `json:"verify"`
}

// hooked is a scenario: medians of the rounds.
type hooked struct {
	delayed

	Longest     time.Duration `json:"longest_ns"` // of all rounds
	Undelivered int           `json:"undelivered"`
	Buffers     float64       `json:"buffers"` // of a claim that asks for all endpoints
	Heap        float64       `json:"heap_bytes"`
	Big         float64       `json:"big_per_second"` // deliveries to the endpoint with much waiting
	Load        string        `json:"load"`           // of the machine, in the last round
}

const (
	hookEndpoints = 1000
	hookRate      = 200 // events a second
	hookWorks     = 5 * time.Millisecond
	hookHangs     = 15 * time.Second

	nameHooksAlone  = "no endpoint is sick"
	nameHooksSick   = "10 % hang, 5 % answer 500"
	nameHooksHalf   = "half of them hang"
	nameHooksMany   = "the same, with ten times as many waiting"
	nameHooksFuture = "the same, and ten times as many due later"
	nameHooksBig    = "a healthy endpoint has as many waiting"
	nameHooksOnly   = "that endpoint alone"
	nameHooksApart  = "nothing wakes the relay"
)

// hookScenariosOf are the scenarios: the behaviour of the endpoints that are not measured.
func hookScenariosOf(waiting int) []hookScenario {
	return []hookScenario{
		{name: nameHooksAlone},
		{name: nameHooksSick, hang: 10, fail: 5, waiting: waiting},
		{name: nameHooksHalf, hang: 50, waiting: waiting},
		{name: nameHooksMany, hang: 10, fail: 5, waiting: 10 * waiting},
		{name: nameHooksFuture, hang: 10, fail: 5, waiting: waiting, later: 10 * waiting},
		{name: nameHooksBig, big: waiting},
		{name: nameHooksOnly, big: waiting, silent: true},
		{name: nameHooksApart, apart: true},
	}
}

func (b *bench) webhooks(ctx context.Context) (*webhooks, error) {
	size := b.hooks
	w := &webhooks{Rounds: size.rounds, Window: size.window, Waiting: size.waiting}
	if size.rounds > 0 {
		if err := b.hookScenarios(ctx, size, w); err != nil {
			return nil, err
		}
	}
	send, err1 := b.hookSends(ctx)
	verify, err2 := b.hookVerify()
	w.Send, w.Verify = send, verify
	return w, errors.Join(err1, err2)
}

// hookScenarios runs the scenarios.
func (b *bench) hookScenarios(ctx context.Context, size webhookSize, w *webhooks) error {
	f, err := b.openHookField(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	list := hookScenariosOf(size.waiting)
	runs := make([][]hookRun, len(list))
	for round := range size.rounds {
		fmt.Fprintf(os.Stderr, "bench: webhooks, round %d of %d\n", round+1, size.rounds)
		for _, i := range rand.Perm(len(list)) {
			run, err := f.run(ctx, list[i], size.window)
			if err != nil {
				return fmt.Errorf("%s: %w", list[i].name, err)
			}
			runs[i] = append(runs[i], run)
		}
	}
	for i, s := range list {
		w.Rows = append(w.Rows, hookedOf(s.name, runs[i]))
	}
	w.judge(list, runs)
	return nil
}

func hookedOf(name string, runs []hookRun) hooked {
	h := hooked{delayed: delayed{Name: name}, Load: runs[len(runs)-1].load}
	median := func(of func(r *hookRun) float64) float64 {
		m, _, _ := spread(each(runs, of))
		return m
	}
	h.P50, h.P99 = time.Duration(median(hookP50)), time.Duration(median(hookP99))
	h.Buffers, h.Heap, h.Big = median(hookBuffers), median(hookHeap), median(hookBig)
	for i := range runs {
		h.Undelivered += runs[i].undelivered
		h.Longest = max(h.Longest, runs[i].longest)
	}
	return h
}

func each(runs []hookRun, of func(r *hookRun) float64) (list []float64) {
	for i := range runs {
		list = append(list, of(&runs[i]))
	}
	return list
}

func hookP50(r *hookRun) float64     { return float64(r.p50) }
func hookP99(r *hookRun) float64     { return float64(r.p99) }
func hookBuffers(r *hookRun) float64 { return float64(r.buffers) }
func hookHeap(r *hookRun) float64    { return float64(r.heap) }
func hookBig(r *hookRun) float64     { return r.big }
func hookLongest(r *hookRun) float64 { return r.longest.Seconds() }

// judge compares scenarios round by round.
func (w *webhooks) judge(list []hookScenario, runs [][]hookRun) {
	of := map[string][]hookRun{}
	for i, s := range list {
		of[s.name] = runs[i]
	}
	ratio := func(what, over, under string, figure func(r *hookRun) float64, bar float64, atMost bool) {
		var ratios []float64
		for i := range of[over] {
			ratios = append(ratios, figure(&of[over][i])/figure(&of[under][i]))
		}
		v := verdict{What: what + ": " + over + " / " + under, Bar: bar, AtMost: atMost}
		v.Median, v.Min, v.Max = spread(ratios)
		w.Verdicts = append(w.Verdicts, v.judged())
	}
	value := func(what, name string, figure func(r *hookRun) float64, bar float64) {
		v := verdict{What: what + ": " + name, Bar: bar, AtMost: true}
		v.Median, v.Min, v.Max = spread(each(of[name], figure))
		w.Verdicts = append(w.Verdicts, v.judged())
	}
	ratio("p99", nameHooksSick, nameHooksAlone, hookP99, 1.3, true)
	value("longest, in s", nameHooksSick, hookLongest, 1)
	ratio("p99", nameHooksHalf, nameHooksAlone, hookP99, 2, true)
	value("longest, in s", nameHooksHalf, hookLongest, 1)
	for _, name := range []string{nameHooksMany, nameHooksFuture} {
		ratio("buffers per claim", name, nameHooksSick, hookBuffers, 1.2, true)
		ratio("heap", name, nameHooksSick, hookHeap, 1.3, true)
		ratio("p99", name, nameHooksSick, hookP99, 2, true)
	}
	ratio("p99 of the others", nameHooksBig, nameHooksAlone, hookP99, 2, true)
	ratio("deliveries to it", nameHooksBig, nameHooksOnly, hookBig, 0.5, false)
	value("p99, in ms", nameHooksApart, func(r *hookRun) float64 { return r.p99.Seconds() * 1000 }, 100)
}

func (w *webhooks) write(p printer) {
	p("\n## Webhooks\n")
	p("### Delays\n")
	p("One relay on PostgreSQL and %s endpoints, each a listener of its own in the same process, which answers after %s. %d events a second, each", thousands(hookEndpoints), hookWorks, hookRate)
	p("for one endpoint, which changes from event to event; the delay is from COMMIT to the answer, of endpoints that are not sick. An endpoint that hangs does so for %s. %s deliveries", hookHangs, thousands(int64(w.Waiting)))
	p("wait at sick endpoints, or at one that is healthy. Each scenario is run in a window of %s in each of %d rounds, in random order; ratios are of one round, and their median counts.\n", w.Window, w.Rounds)
	p("| | ratio | bar | |")
	p("|---|---|---|---|")
	for _, v := range w.Verdicts {
		p("| %s | %s |", v.What, v.cells())
	}
	p("\n| here | p50 | p99 | longest | not delivered | buffers per claim | heap | to the big one | load |")
	p("|---|---|---|---|---|---|---|---|---|")
	for _, r := range w.Rows {
		p("| %s | %s | %s | %s | %d | %.0f | %.1f MB | %.0f/s | %s |", r.Name, millis(r.P50), millis(r.P99), millis(r.Longest), r.Undelivered, r.Buffers, r.Heap/1e6, r.Big, r.Load)
	}
	p("\n### Send\n")
	p("An operation (`Do`) that sends an event to %d endpoints, against one that writes %d rows of an outbox with the body, for the same endpoints, by one statement. %d clients.", hookFan, hookFan, hookClients)
	p("**%s** are the rows of Send, an event and its deliveries with their indexes, written by one statement without Send: so much can be had from these tables.", nameHookBare)
	p("What the three share is in each ratio; **Do** is that alone.")
	for _, t := range w.Send {
		p("\n#### %s\n", t.Title)
		t.writeBody(p)
	}
	p("\n### Verify\n")
	p("`webhook.Standard` against the bare `hmac.New(sha256.New, key)` over the same bytes, by CPU time.\n")
	p("| | ratio of times | bar | | allocations | bar | |")
	p("|---|---|---|---|---|---|---|")
	for _, v := range w.Verify {
		p("| %s | %s | %s |", v.Time.What, v.Time.cells(), v.Allocs.cells())
	}
}
