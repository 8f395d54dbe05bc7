package once_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

func TestErrorSaysCodeEffectAndCause(t *testing.T) {
	err := error(&once.Error{Code: once.CodeFailed, Effect: once.EffectNotApplied, Scope: "acme", Key: "k1", Err: io.EOF})
	if got, want := err.Error(), "once: acme, key 6ab9f1eb8f7d3388: failed (not applied): EOF"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	bare := &once.Error{Code: once.CodeInFlight, Scope: "acme", Key: "k1", After: time.Second}
	if got, want := bare.Error(), "once: acme, key 6ab9f1eb8f7d3388: in_flight (in doubt)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, tt := range []struct{ scope, key, want string }{
		{"", "", "once: failed (in doubt)"},
		{"acme", "", "once: acme: failed (in doubt)"},
		{"", "k1", "once: key 6ab9f1eb8f7d3388: failed (in doubt)"},
	} {
		if got := (&once.Error{Code: once.CodeFailed, Scope: tt.scope, Key: tt.key}).Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if !errors.Is(fmt.Errorf("calling: %w", err), io.EOF) {
		t.Error("the cause cannot be found")
	}
	failure := &once.Failure{Code: "declined", Message: "no funds"}
	if failure.Error() != "declined: no funds" || (&once.Failure{Code: "declined"}).Error() != "declined" {
		t.Errorf("%q", failure)
	}
	for _, tt := range []struct {
		err    error
		code   once.Code
		effect once.Effect
	}{
		{nil, "", once.EffectApplied}, {io.EOF, "", once.EffectInDoubt},
		{err, once.CodeFailed, once.EffectNotApplied}, {fmt.Errorf("x: %w", err), once.CodeFailed, once.EffectNotApplied},
		{failure, "", once.EffectNotApplied}, {fmt.Errorf("x: %w", failure), "", once.EffectNotApplied},
		{&once.Failure{Code: "kept", CommitWrites: true}, "", once.EffectApplied},
		{&once.Error{}, "", once.EffectInDoubt},
	} {
		if code, effect := once.CodeOf(tt.err), once.EffectOf(tt.err); code != tt.code || effect != tt.effect {
			t.Errorf("%v: %q, %s", tt.err, code, effect)
		}
	}
}

func TestEffectOfNothingIsInDoubt(t *testing.T) {
	var e once.Effect
	if e != once.EffectInDoubt || e.String() != "in doubt" || once.EffectNotApplied.String() != "not applied" || once.EffectApplied.String() != "applied" {
		t.Error("an effect that was never set must prove nothing")
	}
}

func TestKindsAndStatesHaveNames(t *testing.T) {
	err := fmt.Errorf("x: %w", &store.Error{Kind: store.KindLost, Err: io.EOF})
	if store.KindOf(err) != store.KindLost || store.KindOf(io.EOF) != store.KindOther || store.KindOf(nil) != store.KindOther || !errors.Is(err, io.EOF) {
		t.Error("KindOf")
	}
	if got, want := err.Error(), "x: store: lost: EOF"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for k, want := range map[store.Kind]string{store.KindOther: "failed", store.KindBusy: "busy", store.KindStale: "stale", store.KindPartial: "partial", store.KindUncertain: "uncertain", store.KindUncertain + 1: "invalid"} {
		if k.String() != want {
			t.Errorf("%d is %q", k, k)
		}
	}
	for s, want := range map[store.State]string{store.StateAbsent: "absent", store.StateRunning: "running", store.StateDone: "done", store.StateUnknown: "unknown", store.StateWaiting: "waiting", 9: "invalid"} {
		if s.String() != want {
			t.Errorf("%d is %q", s, s)
		}
	}
}
