package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// check is one behaviour of clients that the probe imitates.
type check struct {
	name, about string
	requests    int // at most; each of the herds, which are sent at the same moment, adds further requests
	herds       int
	effects     int    // the largest number of effects of a service that keeps its keys
	double      *cause // the cause if too many effects happen
	lost        *cause // the cause if too few happen
	skip        func(p *Probe) string
	run         func(p *Probe, ctx context.Context) error
}

// The checks are made in this order, because later checks rely on the first checks.
var checks = []check{
	{"first", "a request with a new key succeeds", 1, 0, 1, ignored, lost, nil, (*Probe).checkFirst},
	{"second", "another key is another operation", 1, 0, 1, ignored, shared, nil, (*Probe).checkSecond},
	{"replay", "a retry gets the stored answer", 1, 0, 0, ignored, lost, nil, (*Probe).checkReplay},
	{"alternate", "requests with two keys are retried alternately", 3, 0, 1, forgotten, lost, nil, (*Probe).checkAlternate},
	{"repeat", "a client retries again and again", 3, 0, 0, forgotten, lost, nil, (*Probe).checkRepeat},
	{"headers", "a retry has another User-Agent and another trace", 1, 0, 0, headers, lost, nil, (*Probe).checkHeaders},
	{"mismatch", "a different request with a used key", 2, 0, 1, mismatch, lost, needsOther, (*Probe).checkMismatch},
	{"unchanged", "a retry gets the first answer after a different request with its key", 1, 0, 0, unkept, lost, needsOther, (*Probe).checkUnchanged},
	{"concurrent", "requests with one key at the same time", polls, 1, 1, race, lost, nil, (*Probe).checkConcurrent},
	{"two keys at once", "two requests at the same time, each with its own key", 2 + 2*polls, 0, 2, race, shared, nil, (*Probe).checkTwoAtOnce},
	{"missing", "a request without a key", 1, 0, 1, ignored, shared, nil, (*Probe).checkMissing},
	{"empty", "an empty key", 2, 0, 2, empty, empty, nil, (*Probe).checkEmpty},
	{"malformed", "a key with only one quotation mark", 1, 0, 1, malformed, malformed, nil, (*Probe).checkMalformed},
	{"two lines", "a request with two keys", 1, 0, 1, twoLines, twoLines, nil, (*Probe).checkTwoLines},
	{"long", "a key of 255 characters", 1, 0, 1, ignored, shared, nil, (*Probe).checkLong},
	{"truncated", "two keys of 300 characters that differ only in the last character", 2, 0, 2, ignored, truncated, nil, (*Probe).checkTruncated},
	{"case", "two keys that differ only in upper and lower case", 2, 0, 2, ignored, folded, nil, (*Probe).checkCase},
	{"quotes", "a key with and without quotation marks", 2, 0, 2, ignored, shared, nil, (*Probe).checkQuotes},
	{"cut answer", "a client that disconnects before the answer, and retries", polls + 2, 0, 1, cut, lost, nil, (*Probe).checkCutAnswer},
	{"cut body", "a client that disconnects within its request, and retries", polls + 2, 0, 1, cut, halfBody, needsBody, (*Probe).checkCutBody},
	{"slow body", "a request that arrives while a client is still sending another request with the same key", polls + 2, 0, 1, slow, halfBody, needsBody, (*Probe).checkSlowBody},
	{"callers", "another caller has the same key", 1, 0, 1, ignored, leaked, needsAs, (*Probe).checkCallers},
	{"corrected", "a wrong request that the client corrects and sends with the same key", polls + 1, 0, 1, ignored, lost, needsBody, (*Probe).checkCorrected},
	{"late", "at the end of the test, the first request is retried", 1, 0, 0, forgotten, lost, nil, (*Probe).checkLate},
	{"after", "the first request is retried after the time in --after", 1, 0, 0, forgotten, lost, needsAfter, (*Probe).checkAfter},
}

func needsBody(p *Probe) string {
	if len(p.Request.Body) < 2 {
		return "the request has no body"
	}
	return ""
}

func needsOther(p *Probe) string {
	if p.Other == nil {
		return "this check needs --other BODY"
	}
	return ""
}

func needsAs(p *Probe) string {
	if p.As == nil {
		return "this check needs --as 'Authorization: ...' with the credentials of another caller"
	}
	return ""
}

func needsAfter(p *Probe) string {
	if p.After == 0 {
		return "this check needs --after 24h"
	}
	return ""
}

// fresh returns a new key in the form of the preset.
func (p *Probe) fresh() string { return p.form(newKey()) }

func newKey() string { return "once-check-" + strings.ToLower(rand.Text()) }

func (p *Probe) form(key string) string {
	if p.Preset.Quoted {
		return `"` + key + `"`
	}
	return key
}

// of returns the request with these keys.
func of(keys ...string) message { return message{keys: keys} }

// tells reports whether the bytes of the answers distinguish two operations. If all answers are the same, only effects distinguish them.
func (p *Probe) tells() bool { return !p.isUntold }

// same reports whether two answers have the same body. replayed compares the rest.
func same(a, b answer) bool { return bytes.Equal(a.body, b.body) }

// withoutKey is the body of an answer without its key: a repeated key proves nothing, because a second execution repeats it as well.
func withoutKey(a answer, key string) []byte {
	return bytes.ReplaceAll(a.body, []byte(strings.Trim(key, `"`)), nil)
}

// failed reports whether the service failed or did not answer, and adds the failure to the findings.
func (p *Probe) failed(a answer, about string) bool {
	if a.crashed() {
		p.isAny = true
		p.find(crash, fmt.Sprintf("%s: %v", about, a))
		return true
	}
	return false
}

// refusedBy checks a refusal because of a key.
func (p *Probe) refusedBy(a answer) {
	if p.Preset.Strict && a.status >= 400 && a.mediaType() != "application/problem+json" {
		p.find(problem, fmt.Sprintf("the API refuses a request with %d, and the body of this answer is not application/problem+json", a.status))
	}
}

// replayed checks the answer to a retry of an answered request. double is the cause if the retry was executed again.
func (p *Probe) replayed(before, again answer, double *cause, about string) {
	switch {
	case p.failed(again, about):
	case !again.ok():
		p.find(refused, fmt.Sprintf("%s: the API answers %d, and does not send the stored answer", about, again.status))
	case !same(before, again) && p.Effects == nil:
		p.find(double, about+": the bytes of the answer differ from the first answer. The API has executed the request again, or has built the answer again. Use --effects to find out which of these two is true")
	case !same(before, again):
		p.pending = append(p.pending, pending{body, about + ": the bytes of the answer differ from the first answer"})
	default:
		p.alike(before, again, about)
	}
}

// alike compares the status and the headers of two answers.
func (p *Probe) alike(before, again answer, about string) {
	if before.status != again.status {
		p.pending = append(p.pending, pending{status, fmt.Sprintf("%s: the answer has the status %d, and not %d", about, again.status, before.status)})
	}
	for _, name := range []string{"Location", "Content-Type", "Content-Language", "Etag", "Link"} {
		if before.header.Get(name) != again.header.Get(name) {
			p.pending = append(p.pending, pending{header, fmt.Sprintf("%s: the header %s of the answer differs from the first answer", about, name)})
		}
	}
}

func (p *Probe) checkFirst(ctx context.Context) error {
	p.firstKey = p.fresh()
	start := time.Now()
	a, err := p.send(ctx, of(p.firstKey))
	if err != nil {
		return err
	}
	if !a.ok() {
		return fmt.Errorf("the first request gets the answer %v, so the command cannot check anything. Try: use a request that succeeds, or --preset stripe for keys without quotation marks", a)
	}
	p.first, p.firstTook, p.expected = a, time.Since(start), 1
	return nil
}

func (p *Probe) checkSecond(ctx context.Context) error {
	key := p.fresh()
	a, err := p.send(ctx, of(key))
	if err != nil || p.failed(a, "another key") {
		return err
	}
	if !a.ok() {
		p.isAny = true
		return fmt.Errorf("the same request with another key gets the answer %d, so the command cannot check anything. Try: use a request that succeeds each time", a.status)
	}
	p.expected = 1
	p.isUntold = bytes.Equal(withoutKey(a, key), withoutKey(p.first, p.firstKey))
	return nil
}

func (p *Probe) checkReplay(ctx context.Context) error {
	a, err := p.send(ctx, of(p.firstKey))
	if err != nil {
		return err
	}
	p.replayed(p.first, a, ignored, "a retry")
	return nil
}

func (p *Probe) checkAlternate(ctx context.Context) error {
	key := p.fresh()
	b, err := p.send(ctx, of(key))
	if err != nil || p.failed(b, "another key") {
		return err
	}
	p.expected = 1
	for _, r := range []struct {
		key    string
		before answer
	}{{p.firstKey, p.first}, {key, b}} {
		a, err := p.send(ctx, of(r.key))
		if err != nil {
			return err
		}
		p.again(r.before, a, forgotten, "a retry after another key")
	}
	return nil
}

// again is replayed, but only for services whose answers distinguish two operations.
func (p *Probe) again(before, a answer, double *cause, about string) {
	if p.isUntold {
		a.body = before.body
	}
	p.replayed(before, a, double, about)
}

func (p *Probe) checkRepeat(ctx context.Context) error {
	for range 3 {
		a, err := p.send(ctx, of(p.firstKey))
		if err != nil {
			return err
		}
		p.again(p.first, a, forgotten, "a retry after other retries")
	}
	return nil
}

func (p *Probe) checkHeaders(ctx context.Context) error {
	m := of(p.firstKey)
	m.header = http.Header{"User-Agent": {"another"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "X-Once-Check": {"1"}}
	a, err := p.send(ctx, m)
	if err != nil {
		return err
	}
	const about = "a retry with another User-Agent, a traceparent and an unknown header"
	if !a.ok() && !a.crashed() {
		p.find(picky, fmt.Sprintf("%s: the API answers %d", about, a.status))
		return nil
	}
	p.again(p.first, a, headers, about)
	return nil
}

func (p *Probe) checkMismatch(ctx context.Context) error {
	other := of(p.fresh())
	other.body = p.Other
	a, err := p.send(ctx, other)
	if err != nil || p.failed(a, "another body") {
		return err
	}
	if !a.ok() {
		p.find(unchecked, fmt.Sprintf("the check with a different body was not made, because the API refuses the changed body with %d. Use --other BODY with a body that the API accepts", a.status))
		return nil
	}
	p.expected = 1
	other.keys = []string{p.firstKey}
	a, err = p.send(ctx, other)
	switch {
	case err != nil || p.failed(a, "a different body with the same key"):
	case a.ok() && same(a, p.first):
		p.find(mismatch, "a request with a used key and a different body gets the answer to the first body, so the client receives a wrong answer")
	case a.ok():
		p.find(mismatch, "the API executes a request with a used key and a different body")
	default:
		p.refusedBy(a)
		if p.mismatch = a.status; a.status != p.Preset.Mismatch {
			p.find(otherStatus, fmt.Sprintf("a request with a used key and a different body gets the answer %d, but the preset %s requires %d", a.status, p.Preset.Name, p.Preset.Mismatch))
		}
	}
	return err
}

func (p *Probe) checkUnchanged(ctx context.Context) error {
	a, err := p.send(ctx, of(p.firstKey))
	if err == nil {
		p.again(p.first, a, unkept, "a retry after a different body with its key")
	}
	return err
}

func (p *Probe) checkLate(ctx context.Context) error {
	a, err := p.send(ctx, of(p.firstKey))
	if err == nil {
		p.again(p.first, a, forgotten, "a retry at the end")
	}
	return err
}

func (p *Probe) checkAfter(ctx context.Context) error {
	if err := p.wait(ctx, p.After); err != nil {
		return err
	}
	a, err := p.send(ctx, of(p.firstKey))
	if err == nil {
		p.again(p.first, a, forgotten, fmt.Sprintf("a retry after %v", p.After))
	}
	return err
}
