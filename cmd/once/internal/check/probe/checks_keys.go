package probe

import (
	"context"
	"fmt"
	"strings"
)

// once sends a message that may or may not have an effect: it counts as an effect if its answer is a success.
func (p *Probe) once(ctx context.Context, m message, about string) (answer, error) {
	a, err := p.send(ctx, m)
	if err != nil || p.failed(a, about) {
		return a, err
	}
	if a.ok() {
		p.expected++
	} else {
		p.refusedBy(a)
	}
	return a, nil
}

func (p *Probe) checkMissing(ctx context.Context) error {
	a, err := p.once(ctx, of(), "a request without a key")
	if err == nil && a.ok() && p.Preset.Strict {
		p.find(missing, "the API executes a request without a key")
	}
	return err
}

func (p *Probe) checkEmpty(ctx context.Context) error {
	var answers []answer
	for range 2 {
		a, err := p.once(ctx, of(""), "an empty key")
		if err != nil {
			return err
		}
		answers = append(answers, a)
	}
	p.isAny = true
	a, b := answers[0], answers[1]
	switch {
	case !a.ok() || !b.ok():
	case same(a, b) && p.tells():
		p.find(empty, "the API treats an empty key like any other key: all clients with an empty key get the same answer")
	default:
		p.find(empty, "the API treats an empty key like a missing key: the API executes a retry with an empty key again")
	}
	return nil
}

func (p *Probe) checkMalformed(ctx context.Context) error {
	a, err := p.once(ctx, of(`"`+newKey()), "a key with only one quotation mark")
	p.isAny = true
	if err == nil && a.ok() && p.Preset.Strict {
		p.find(malformed, "the API accepts a key that begins with a quotation mark and does not end with a quotation mark")
	}
	return err
}

func (p *Probe) checkTwoLines(ctx context.Context) error {
	a, err := p.once(ctx, of(p.fresh(), p.fresh()), "a request with two keys")
	if err == nil && a.ok() && p.Preset.Strict {
		p.find(twoLines, "the API executes a request with two keys, and the client cannot know which key is stored")
	}
	return err
}

// ofLength returns a new key of n characters.
func (p *Probe) ofLength(n int) string {
	key := newKey()
	key += strings.Repeat("k", n-len(p.form(key)))
	return p.form(key)
}

func (p *Probe) checkLong(ctx context.Context) error {
	a, err := p.once(ctx, of(p.ofLength(255)), "a key of 255 characters")
	if err == nil && !a.ok() && !a.crashed() {
		p.find(long, fmt.Sprintf("the API refuses a key of 255 characters with %d", a.status))
	}
	return err
}

// two sends requests with two keys, which must be two operations.
func (p *Probe) two(ctx context.Context, k1, k2 string, c *cause, about string) error {
	a, err := p.once(ctx, of(k1), about)
	if err != nil {
		return err
	}
	b, err := p.once(ctx, of(k2), about)
	if err == nil && a.ok() && b.ok() && p.tells() && same(a, b) {
		p.find(c, about+": the request with the second key gets the answer to the first key")
	}
	return err
}

func (p *Probe) checkTruncated(ctx context.Context) error {
	key := newKey()
	key += strings.Repeat("k", 300-len(key))
	return p.two(ctx, p.form(key+"1"), p.form(key+"2"), truncated, "two keys of 300 characters that differ only in the last character")
}

func (p *Probe) checkCase(ctx context.Context) error {
	key := newKey()
	return p.two(ctx, p.form(key), p.form(strings.ToUpper(key)), folded, "two keys that differ only in upper and lower case")
}

func (p *Probe) checkQuotes(ctx context.Context) error {
	key := newKey()
	a, err := p.once(ctx, of(`"`+key+`"`), "a key with quotation marks")
	if err != nil {
		return err
	}
	b, err := p.once(ctx, of(key), "a key without quotation marks")
	if err != nil || !a.ok() || !b.ok() {
		return err
	}
	p.isAny = true
	if p.tells() && !same(a, b) {
		p.find(quoted, "the API treats a key with quotation marks, and the same key without quotation marks, as two keys")
	}
	return nil
}

func (p *Probe) checkCallers(ctx context.Context) error {
	m := of(p.firstKey)
	m.header = p.As
	a, err := p.send(ctx, m)
	const about = "another caller with the same key"
	switch {
	case err != nil || p.failed(a, about):
	case a.ok():
		p.expected = 1
		if p.tells() && same(a, p.first) {
			p.find(leaked, about+" gets the answer of the first caller")
		}
	case a.status == 401 || a.status == 403:
		p.find(unchecked, fmt.Sprintf("%s: this check was not made, because the API refuses the credentials with %d. Use --as with correct credentials", about, a.status))
	default:
		p.find(seen, fmt.Sprintf("%s: the API answers %d, so this caller cannot use the key, and learns that another caller has used the key", about, a.status))
	}
	return err
}
