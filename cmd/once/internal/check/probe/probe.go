// Package probe finds out from outside whether an HTTP service keeps its idempotency keys. It repeats one request, like clients that retry, race, die
// and make mistakes, and compares answers and effects.
package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/cmd/once/internal/request"
	"github.com/oncelib/once/internal/base/words"
)

// Preset has the rules of an API about keys.
type Preset struct {
	Name     string
	Quoted   bool // a key is a string of structured fields: "k"
	Mismatch int  // the status for another request under a key
	Strict   bool // a key is required, well-formed, and refused with application/problem+json
}

// Presets are all presets; the first one is the default.
var Presets = []Preset{
	{Name: "draft", Quoted: true, Mismatch: http.StatusUnprocessableEntity, Strict: true}, // draft-ietf-httpapi-idempotency-key-header-07
	{Name: "stripe", Mismatch: http.StatusBadRequest},
}

// Names are the names of Presets.
func Names() (names []string) {
	for _, p := range Presets {
		names = append(names, p.Name)
	}
	return names
}

// Config is what to check, and how.
type Config struct {
	Request   *request.Request
	KeyHeader string      // default Idempotency-Key
	Preset    Preset      // default the first of Presets
	Other     []byte      // another body that the service accepts; nil means Request's body with another number
	As        http.Header // another caller's credentials, in place of the credentials in Request; nil if not given
	Owned     []string    // allowed hosts other than this machine
	After     time.Duration

	// Effects counts all effects. Without it the probe compares only answers, if these differ between operations.
	Effects func(ctx context.Context) (int64, error)
}

const (
	remoteRate = 5 // requests a second to another machine
	herd       = 12
	polls      = 7 // of a busy key; each pause is twice as long as the one before
)

// Probe is one run of all checks.
type Probe struct {
	Config

	pace    *pace
	wait    func(ctx context.Context, d time.Duration) error
	connect func(ctx context.Context, network, address string) (net.Conn, error)

	requests  atomic.Int64
	findings  []*Finding
	results   []Result
	now       string // the running check
	expected  int64  // the right number of effects of this check
	isAny     bool   // any number of effects is right
	isOver    bool   // further checks prove nothing
	isUntold  bool   // the answers to two keys had the same bytes
	first     answer
	firstKey  string
	firstTook time.Duration
	pending   []pending
	mismatch  int // the status of the answer to another request with the same key
}

// pending is a difference between two answers of one operation. It becomes a finding if the effects prove that it was one operation.
type pending struct {
	cause *cause
	says  string
}

// Finding is one mistake of the service.
type Finding struct {
	Level  Level    `json:"level"`
	Cause  string   `json:"cause"`
	Checks []string `json:"checks"` // the checks that have found it
	Says   string   `json:"says"`
	Try    string   `json:"try"`
}

// Result is the result of one check.
type Result struct {
	Check   string `json:"check"`
	About   string `json:"about"`
	Outcome string `json:"outcome"` // ok, a level, or skipped
	Why     string `json:"why,omitempty"`
}

// Report has all results.
type Report struct {
	Request  string     `json:"request"`
	Preset   string     `json:"preset"`
	Requests int64      `json:"requests"`
	Effects  *int64     `json:"effects,omitempty"`
	Blind    bool       `json:"blind"` // effects were not counted, so it is not known whether two equal answers were one effect
	Findings []*Finding `json:"findings"`
	Checks   []Result   `json:"checks"`
}

// Passed reports whether the service keeps its keys, as far as the checks have seen.
func (r *Report) Passed() bool {
	for _, f := range r.Findings {
		if f.Level != Note {
			return false
		}
	}
	return true
}

// New prepares a run. It refuses a request to another machine, and sends no request.
func New(cfg Config) (*Probe, error) {
	if cfg.KeyHeader == "" {
		cfg.KeyHeader = "Idempotency-Key"
	}
	if cfg.Preset.Name == "" {
		cfg.Preset = Presets[0]
	}
	if cfg.Other == nil {
		cfg.Other = otherBody(cfg.Request.Body)
	}
	if err := Allow(cfg.Request.URL.Hostname(), cfg.Owned); err != nil {
		return nil, err
	}
	p := &Probe{Config: cfg, pace: &pace{now: time.Now, wait: wait}, wait: wait}
	if !isLoopback(cfg.Request.URL.Hostname()) {
		p.pace.limit = remoteRate
	}
	p.connect = Dialer(cfg.Request.URL.Hostname()).DialContext
	return p, nil
}

// Step is a check of a plan.
type Step struct {
	Check    string `json:"check"`
	About    string `json:"about"`
	Requests int    `json:"requests"` // at most
	Effects  int    `json:"effects"`  // at most, at a service that keeps its keys
	Skipped  string `json:"skipped,omitempty"`
}

// Plan lists the checks, and sends no request.
func (p *Probe) Plan() (steps []Step, requests, effects int) {
	for i := range checks {
		c := &checks[i]
		s := Step{Check: c.name, About: c.about, Skipped: p.skips(c)}
		if s.Skipped == "" {
			s.Requests, s.Effects = c.requests+c.herds*p.herd(), c.effects
		}
		steps = append(steps, s)
		requests, effects = requests+s.Requests, effects+s.Effects
	}
	return steps, requests, effects
}

// herd returns how many requests are sent at the same moment.
func (p *Probe) herd() int {
	if p.pace.limit > 0 {
		return p.pace.limit
	}
	return herd
}

func (p *Probe) skips(c *check) string {
	if c.skip == nil {
		return ""
	}
	return c.skip(p)
}

// Run makes the checks. It fails if the service cannot be reached, or does not accept the request at all.
func (p *Probe) Run(ctx context.Context) (*Report, error) {
	start, err := p.count(ctx)
	if err != nil {
		return nil, err
	}
	before := start
	for i := range checks {
		c := &checks[i]
		if before, err = p.check(ctx, c, before); err != nil {
			return nil, err
		}
	}
	end, err := p.count(ctx)
	if err != nil {
		return nil, err
	}
	if end > before {
		p.now = "end"
		p.find(later, fmt.Sprintf("the API made %s after its last answer", words.Count(int(end-before), "effect")))
	}
	report := &Report{Request: p.Request.Place(), Preset: p.Preset.Name, Requests: p.requests.Load(), Findings: p.findings, Checks: p.results}
	if report.Findings == nil {
		report.Findings = []*Finding{}
	}
	if p.Effects != nil {
		effects := end - start
		report.Effects = &effects
	}
	report.Blind = p.Effects == nil && p.isUntold
	return report, nil
}

func (p *Probe) count(ctx context.Context) (int64, error) {
	if p.Effects == nil {
		return 0, nil
	}
	n, err := p.Effects(ctx)
	if err != nil {
		return 0, fmt.Errorf("the command cannot count the effects: %w", err)
	}
	return n, nil
}

// check makes one check, and returns the number of effects after it.
func (p *Probe) check(ctx context.Context, c *check, before int64) (int64, error) {
	r := Result{Check: c.name, About: c.about, Outcome: "ok"}
	if r.Why = p.skips(c); r.Why == "" && p.isOver {
		r.Why = "an earlier finding explains the result of this check"
	}
	if r.Why != "" {
		r.Outcome = "skipped"
		p.results = append(p.results, r)
		return before, nil
	}
	p.now, p.expected, p.isAny, p.pending = c.name, 0, false, nil
	if err := c.run(p, ctx); err != nil {
		return before, err
	}
	after, err := p.count(ctx)
	if err != nil {
		return before, err
	}
	p.judge(c, after-before)
	for _, f := range p.findings {
		if slices.Contains(f.Checks, c.name) && rank[f.Level] > rank[Level(r.Outcome)] {
			r.Outcome = string(f.Level)
		}
	}
	p.results = append(p.results, r)
	return after, nil
}

// judge compares the effects of a check with the expected ones.
func (p *Probe) judge(c *check, effects int64) {
	says := fmt.Sprintf("in the check %q, the API made %s, and not %d", c.about, words.Count(int(effects), "effect"), p.expected)
	switch {
	case p.Effects != nil && !p.isAny && effects > p.expected:
		p.find(c.double, says)
	case p.Effects != nil && !p.isAny && effects < p.expected:
		p.find(c.lost, says)
	default:
		for _, d := range p.pending {
			p.find(d.cause, d.says)
			p.isUntold = p.isUntold || d.cause == body // from now on equal bytes prove nothing
		}
	}
	if c.name == "replay" { // no other check proves anything about a service without replays
		p.isOver = p.found(ignored) || p.found(refused)
	}
}

func (p *Probe) found(c *cause) bool {
	return slices.ContainsFunc(p.findings, func(f *Finding) bool { return f.Cause == c.name })
}

var rank = map[Level]int{Note: 1, Deviation: 2, Violation: 3}

// find reports a cause. A known cause only gets the name of this check.
func (p *Probe) find(c *cause, says string) {
	for _, f := range p.findings {
		if f.Cause == c.name {
			if f.Checks[len(f.Checks)-1] != p.now {
				f.Checks = append(f.Checks, p.now)
			}
			return
		}
	}
	p.findings = append(p.findings, &Finding{c.level, c.name, []string{p.now}, says, c.try})
}
