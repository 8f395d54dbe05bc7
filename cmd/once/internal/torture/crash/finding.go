package crash

import (
	"fmt"
	"slices"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/internal/base/words"
)

// Finding is one way in which a service does not keep its keys. It is reported once, however many kills show it.
type Finding struct {
	Level  probe.Level `json:"level"`
	Cause  string      `json:"cause"`
	Points []string    `json:"points"` // of the kills after which it was seen
	Says   string      `json:"says"`   // about the first of them
	Try    string      `json:"try"`
}

// Kill is the result of one kill.
type Kill struct {
	Point   string `json:"point"`
	Hit     bool   `json:"hit"`     // it happened between the request and its answer
	Outcome string `json:"outcome"` // ok, or the cause of a finding
}

// Report has all results.
type Report struct {
	Request  string     `json:"request"`
	Complete bool       `json:"complete"` // each packet of a request was a point
	Hits     int        `json:"hits"`
	Kills    []Kill     `json:"kills"`
	Findings []*Finding `json:"findings"`
}

// cause is a mistake of a service.
type cause struct {
	name  string
	level probe.Level
	try   string
}

const together = "commit the key, the effect and the answer in one transaction"

var (
	double    = &cause{"double", probe.Violation, together + "; a key that is marked as running does not show whether the effect happened"}
	lost      = &cause{"lost", probe.Violation, together + ", and send the answer after the commit"}
	stuck     = &cause{"stuck", probe.Violation, together + ", so that a crash rolls the key back; or hold the key with a lease, and set --stuck-after to more than the time of the lease"}
	different = &cause{"different", probe.Deviation, "store the status and the body of the answer in the transaction of the effect, and send the stored answer to each retry"}
)

// seen has the observations about one key.
type seen struct {
	first, final, again answer
	isAnswered          bool // final is an answer, and not another refusal
	effects             int64
}

// judge returns the cause of an error with one key, or nil.
func (r *run) judge(s seen) (*cause, string) {
	effects := fmt.Sprintf("the request had %s, and not %d", words.Count(int(s.effects), "effect"), r.unit)
	switch {
	case s.effects > r.unit:
		return double, "the API executed the retries: " + effects
	case !s.isAnswered:
		return stuck, fmt.Sprintf("for %[2]v after the restart the retries got %[1]v. The request had %[3]s", s.final, r.Patience, words.Count(int(s.effects), "effect"))
	case s.effects < r.unit && s.final.status == r.usual.status:
		return lost, fmt.Sprintf("the retry got %v: %s", s.final, effects)
	case s.final.status != r.usual.status:
		return different, fmt.Sprintf("the retry got %v, but without a kill the answer is %v. The request had %s", s.final, r.usual, words.Count(int(s.effects), "effect"))
	case !s.final.equal(s.again, r.isStored), s.first.status != 0 && !s.first.equal(s.final, r.isStored):
		return different, "two answers for one key are different"
	}
	return nil, ""
}

// find adds a finding, or adds the point to an existing finding with the same cause.
func (r *run) find(c *cause, p point, says string) {
	i := slices.IndexFunc(r.report.Findings, func(f *Finding) bool { return f.Cause == c.name })
	if i < 0 {
		i = len(r.report.Findings)
		r.report.Findings = append(r.report.Findings, &Finding{Level: c.level, Cause: c.name, Says: says, Try: c.try})
	}
	f := r.report.Findings[i]
	if text := p.String(); !slices.Contains(f.Points, text) {
		f.Points = append(f.Points, text)
	}
}
