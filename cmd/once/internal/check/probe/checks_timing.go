package probe

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// settle sends the request until the key is no longer busy, and gives up after some attempts.
func (p *Probe) settle(ctx context.Context, key string) (a answer, err error) {
	d := max(50*time.Millisecond, p.firstTook/16)
	for i := range polls {
		if a, err = p.send(ctx, of(key)); err != nil || !a.busy() || i == polls-1 {
			return a, err
		}
		p.inFlight(a)
		if err := p.wait(ctx, d); err != nil {
			return a, err
		}
		d *= 2
	}
	return a, nil
}

// inFlight checks how the service refuses a request while another request with the key is running.
func (p *Probe) inFlight(a answer) {
	p.refusedBy(a)
	if a.header.Get("Retry-After") == "" {
		p.find(retryAfter, fmt.Sprintf("while a request with the key is running, the API refuses a second request with %d and without Retry-After", a.status))
	}
	if a.status == http.StatusLocked || a.status == http.StatusTooEarly { // 429 and 503 may have other reasons
		p.find(inFlight, fmt.Sprintf("while a request with the key is running, the API refuses a second request with %d, and not with 409", a.status))
	}
}

// settled calls settle when the service must have an answer, and reports whether it has one.
func (p *Probe) settled(ctx context.Context, key string, c *cause, about string) (answer, bool, error) {
	a, err := p.settle(ctx, key)
	if err != nil || p.failed(a, about) {
		return a, false, err
	}
	if !a.ok() {
		p.isAny = true
		p.find(c, fmt.Sprintf("%s: the answer is still %d after %d tries", about, a.status, polls))
		return a, false, nil
	}
	return a, true, nil
}

func (p *Probe) checkConcurrent(ctx context.Context) error {
	key := p.fresh()
	messages := make([]message, p.herd())
	for i := range messages {
		messages[i] = of(key)
	}
	about := fmt.Sprintf("%d requests with one key at the same time", len(messages))
	answers, err := p.atOnce(ctx, messages)
	if err != nil {
		return err
	}
	a, ok, err := p.settled(ctx, key, stuck, about)
	if err != nil {
		return err
	}
	if ok {
		p.expected = 1
	}
	for _, b := range answers {
		switch {
		case p.failed(b, about):
		case b.ok() && ok:
			p.again(a, b, race, about)
		case b.ok():
		case b.busy():
			p.inFlight(b)
		default:
			p.find(inFlight, fmt.Sprintf("%s: the API refuses one of these requests with %d, and not with 409", about, b.status))
		}
	}
	return nil
}

func (p *Probe) checkTwoAtOnce(ctx context.Context) error {
	keys := []string{p.fresh(), p.fresh()}
	if _, err := p.atOnce(ctx, []message{of(keys[0]), of(keys[1])}); err != nil {
		return err
	}
	var answers []answer
	for _, key := range keys {
		a, ok, err := p.settled(ctx, key, stuck, "two requests at the same time, each with its own key")
		if err != nil || !ok {
			return err
		}
		answers = append(answers, a)
	}
	p.expected = 2
	if p.tells() && same(answers[0], answers[1]) {
		p.find(shared, "two requests at the same time, each with its own key, get the same answer")
	}
	return nil
}

// retry sends the retries of a client whose first request was cut off.
func (p *Probe) retry(ctx context.Context, key string, c *cause, about string) error {
	a, ok, err := p.settled(ctx, key, c, about)
	if err != nil || !ok {
		return err
	}
	p.expected = 1
	b, err := p.send(ctx, of(key))
	if err == nil {
		p.again(a, b, cut, about)
	}
	return err
}

func (p *Probe) checkCutAnswer(ctx context.Context) error {
	key := p.fresh()
	if err := p.pace.take(ctx, 1); err != nil {
		return err
	}
	w, err := p.open(ctx, of(key), nothing)
	if err != nil {
		return err
	}
	w.cut()
	return p.retry(ctx, key, stuck, "a retry of a client that disconnected before the answer")
}

func (p *Probe) checkCutBody(ctx context.Context) error {
	key := p.fresh()
	if err := p.pace.take(ctx, 1); err != nil {
		return err
	}
	w, err := p.open(ctx, of(key), half)
	if err != nil {
		return err
	}
	w.cut()
	return p.retry(ctx, key, halfBody, "a retry of a request whose body was cut off")
}

func (p *Probe) checkSlowBody(ctx context.Context) error {
	const about = "a request that arrives while another request with its key is being sent"
	key := p.fresh()
	if err := p.pace.take(ctx, 1); err != nil {
		return err
	}
	w, err := p.open(ctx, of(key), half)
	if err != nil {
		return err
	}
	defer w.cut()
	if err := p.pace.take(ctx, 1); err != nil {
		return err
	}
	v, err := p.open(ctx, of(key), nothing)
	if err != nil {
		return err
	}
	defer v.cut()
	overtaking := make(chan answer, 1)
	go func() { overtaking <- v.read(p.Request.Method) }()
	answers := make([]answer, 0, 2)
	patience, stop := context.WithTimeout(ctx, max(time.Second, 4*p.firstTook))
	defer stop()
	select { // a service may let the second request wait for the slow one
	case a := <-overtaking:
		answers = append(answers, a)
	case <-patience.Done():
	}
	w.finish()
	answers = append(answers, w.read(p.Request.Method))
	if len(answers) == 1 {
		answers = append(answers, <-overtaking)
	}
	a, ok, err := p.settled(ctx, key, halfBody, about)
	if err != nil || !ok {
		return err
	}
	p.expected = 1
	for _, b := range answers {
		if b.ok() {
			p.again(a, b, slow, about)
		} else if b.busy() {
			p.inFlight(b)
		}
	}
	return nil
}

func (p *Probe) checkCorrected(ctx context.Context) error {
	const about = "a request that the client has corrected and sent with the key of the wrong request"
	key := p.fresh()
	m := of(key)
	m.body = p.Request.Body[:len(p.Request.Body)/2]
	wrong, err := p.send(ctx, m)
	if err != nil || wrong.ok() || wrong.crashed() {
		p.isAny = true // half of a body may have any effect: this is not about keys
		return err
	}
	a, err := p.settle(ctx, key)
	switch {
	case err != nil || p.failed(a, about):
	case a.ok():
		p.expected = 1
	case a.busy() && a.status != p.mismatch:
		p.isAny = true
		p.find(stuck, fmt.Sprintf("%s: the answer is still %d after %d tries", about, a.status, polls))
	case a.status == wrong.status && same(a, wrong):
		p.find(corrected, about+", gets the answer to the wrong request")
	default:
		p.refusedBy(a)
	}
	return err
}
