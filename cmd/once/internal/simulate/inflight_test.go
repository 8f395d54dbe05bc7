package simulate

import (
	"math/rand/v2"
	"testing"

	"github.com/oncelib/once/retry"
)

// The budget of what is in flight counts as that of failsafe-go does: calls that sleep
// before a retry are in flight, and a retry counts as one more.
func TestSleepingCallsAreInFlight(t *testing.T) {
	var clock clock
	model := &script{clock: &clock}
	for range 20 {
		model.replies = append(model.replies, reply{class: retry.ClassUnknown})
	}
	model.replies = append(model.replies, reply{delay: sec}, reply{delay: sec}, reply{delay: sec}, reply{delay: sec}, reply{delay: sec}, reply{delay: sec}, reply{delay: sec}, reply{delay: sec})
	p := Policy{retry: retry.Policy{Base: sec}, burst: -1, inFlight: 0.2}
	cl := client{clock: &clock, policy: &p, random: rand.New(rand.NewPCG(1, 2)), service: model, sent: func() {}}
	of := p.process(&clock, 5*sec)
	refused := 0
	for range 20 {
		cl.begin(&intent{of: of, done: func(ok bool) {
			if !ok {
				refused++
			}
		}})
	}
	clock.run(sec / 1000)
	if of.flying != 20 || of.retrying != 0 {
		t.Errorf("%d in flight, %d of them retries, while 20 sleep", of.flying, of.retrying)
	}
	clock.run(sec * 9 / 10)
	if of.retrying < 4 || of.retrying > 6 || refused == 0 {
		t.Errorf("%d retries in flight of %d, %d refused", of.retrying, of.flying, refused)
	}
	clock.run(60 * sec)
	if of.flying != 0 || of.retrying != 0 {
		t.Errorf("in the end %d are in flight, %d of them retries", of.flying, of.retrying)
	}
}
