package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
)

// Step is the length of time of one point of a series.
const Step = time.Second / 10

// Result is the result of a policy in a scenario.
type Result struct {
	Policy

	Intents   int     `json:"intents"`
	Succeeded int     `json:"succeeded"`
	Failed    int     `json:"failed"`
	Open      int     `json:"open"`   // running at the end: neither succeeded nor failed
	Unsent    int     `json:"unsent"` // intents that failed without any attempt, because of a breaker
	Attempts  int     `json:"attempts"`
	Recovery  float64 `json:"recovery_s"`    // after the end of the fault; -1 if not within the simulated time
	Amplified float64 `json:"amplification"` // attempts per intent during the fault
	Peak      float64 `json:"peak"`          // the most attempts per intent in any second
	Queue     int     `json:"queue"`         // the greatest length of the queue

	Series Series `json:"series"`

	won []int // for each step: the intents that began in it and have succeeded
}

// Series are counts by step.
type Series struct {
	Intents  []int `json:"intents"`  // that began
	Attempts []int `json:"attempts"` // that were sent
	Good     []int `json:"good"`     // intents that succeeded
	Queue    []int `json:"queue"`    // at the end of the step
}

// Run simulates clients with a policy in a scenario.
func Run(s Scenario, p Policy, seed uint64) Result {
	r := &run{result: Result{Policy: p}}
	steps := int(s.Length / Step)
	for _, list := range r.lists() {
		*list = make([]int, steps)
	}
	// Each kind of chance has a source of its own, so that all policies meet the same intents at the same moments.
	arrivals, jitter, serving := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, 3))
	r.service = service{Scenario: &s, clock: &r.clock, random: serving, keyed: p.keyed}
	if p.shed { // with the defaults of limit.Config, for so many workers
		r.service.turns = fairqueue.New(fairqueue.Config{Limit: s.Workers, Queue: s.Workers, Wait: time.Second})
	}
	r.client = client{clock: &r.clock, policy: &p, random: jitter, service: &r.service, sent: func() {
		r.result.Attempts++
		r.count(r.result.Series.Attempts)
	}}
	var of *process
	for range s.Clients {
		if of == nil || !s.Shared {
			of = p.process(&r.clock, s.Timeout)
		}
		if s.Think > 0 {
			r.call(of, rand.New(rand.NewPCG(seed, arrivals.Uint64())), s.Think)
		} else {
			r.arrive(of, rand.New(rand.NewPCG(seed, arrivals.Uint64())), s.Rate/float64(s.Clients))
		}
	}
	for i := range r.result.Series.Queue {
		r.run(time.Duration(i+1) * Step)
		r.result.Series.Queue[i] = r.service.waiting()
	}
	r.result.Open = r.result.Intents - r.result.Succeeded - r.result.Failed
	judge(&r.result, s)
	return r.result
}

type run struct {
	clock

	service service
	client  client
	result  Result
}

func (r *run) lists() []*[]int {
	s := &r.result.Series
	return []*[]int{&s.Intents, &s.Attempts, &s.Good, &s.Queue, &r.result.won}
}

func (r *run) count(list []int) { r.countAt(list, r.now) }

func (r *run) countAt(list []int, at time.Duration) {
	if step := int(at / Step); step < len(list) {
		list[step]++
	}
}

// arrive plans intents of a client at random times.
func (r *run) arrive(of *process, random *rand.Rand, rate float64) {
	r.after(time.Duration(random.ExpFloat64()/rate*float64(time.Second)), func() {
		r.intent(of, random, func() {})
		r.arrive(of, random, rate)
	})
}

// call plans the intents of one caller, who makes a pause after each intent.
func (r *run) call(of *process, random *rand.Rand, think time.Duration) {
	r.after(time.Duration(random.ExpFloat64()*float64(think)), func() {
		r.intent(of, random, func() { r.call(of, random, think) })
	})
}

func (r *run) intent(of *process, random *rand.Rand, over func()) {
	r.result.Intents++
	r.count(r.result.Series.Intents)
	start := r.now
	i := &intent{of: of, stuck: random.Float64() < r.service.Stuck}
	i.done = func(ok bool) {
		switch {
		case ok:
			r.result.Succeeded++
			r.count(r.result.Series.Good)
			r.countAt(r.result.won, start)
		case i.tries == 0:
			r.result.Unsent++
			fallthrough
		default:
			r.result.Failed++
		}
		over()
	}
	r.client.begin(i)
}
