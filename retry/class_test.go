package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
)

type knows bool

func (k knows) Error() string   { return "it knows" }
func (k knows) Retryable() bool { return bool(k) }

// newer is an error of a version that knows another class.
type newer struct{}

func (newer) Error() string                             { return "newer" }
func (newer) RetryClass() (string, time.Duration, bool) { return "tomorrow", time.Second, true }

func TestClassifyErrors(t *testing.T) {
	plain := errors.New("plain")
	of := func(code once.Code, effect once.Effect, err error) error {
		return &once.Error{Code: code, Effect: effect, After: time.Second, Err: err}
	}
	for _, c := range []struct {
		name  string
		err   error
		class retry.Class
		after time.Duration
	}{
		{"plain", plain, retry.ClassUnknown, 0},
		{"a timeout", context.DeadlineExceeded, retry.ClassUnknown, 0},
		{"retryable", knows(true), retry.ClassUnknown, 0},
		{"not retryable", knows(false), retry.ClassFinal, 0},
		{"wrapped", fmt.Errorf("w: %w", knows(false)), retry.ClassFinal, 0},
		{"joined", errors.Join(plain, knows(false)), retry.ClassFinal, 0},
		{"the outermost is believed", retry.After(knows(false), time.Second), retry.ClassThrottled, time.Second},
		{"Permanent", retry.Permanent(plain), retry.ClassFinal, 0},
		{"Stop around After", retry.Permanent(retry.After(plain, time.Second)), retry.ClassFinal, 0},
		{"in flight", of(once.CodeInFlight, once.EffectInDoubt, nil), retry.ClassInFlight, time.Second},
		{"mismatch", of(once.CodeMismatch, once.EffectNotApplied, nil), retry.ClassFinal, 0},
		{"stale", of(once.CodeStale, once.EffectInDoubt, nil), retry.ClassFinal, 0},
		{"unknown, and a person decides", &once.Error{Code: once.CodeUnknown, Effect: once.EffectInDoubt}, retry.ClassFinal, 0},
		{"unknown, and the next caller has it asked", of(once.CodeUnknown, once.EffectInDoubt, nil), retry.ClassUnknown, time.Second},
		{"misuse", of(once.CodeMisuse, once.EffectInDoubt, nil), retry.ClassFinal, 0},
		{"conflict", of(once.CodeConflict, once.EffectNotApplied, nil), retry.ClassTransient, time.Second},
		{"the store is away", of(once.CodeUnavailable, once.EffectInDoubt, nil), retry.ClassUnknown, time.Second},
		{"the handler failed", of(once.CodeFailed, once.EffectNotApplied, plain), retry.ClassTransient, time.Second},
		{"the handler knows better", of(once.CodeFailed, once.EffectNotApplied, knows(false)), retry.ClassFinal, 0},
		{"failed, and yet applied", of(once.CodeFailed, once.EffectApplied, plain), retry.ClassFinal, 0},
		{"a class of a newer version", newer{}, retry.ClassUnknown, time.Second},
		{"declined", &once.Failure{Code: "card_declined"}, retry.ClassFinal, 0},
	} {
		if class, after := retry.Classify(c.err); class != c.class || after != c.after {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, class, after, c.class, c.after)
		}
	}
}

func TestNilStaysNil(t *testing.T) {
	if retry.Permanent(nil) != nil || retry.After(nil, time.Second) != nil {
		t.Error("an error out of nothing")
	}
}
