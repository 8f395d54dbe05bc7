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

func TestError(t *testing.T) {
	err := error(&once.Error{Code: once.CodeFailed, Effect: once.NotApplied, Scope: "acme", Key: "k1", Err: io.EOF})
	if got, want := err.Error(), "once: acme, key k1: failed (not applied): EOF"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	bare := &once.Error{Code: once.CodeInFlight, Scope: "acme", Key: "k1", After: time.Second}
	if got, want := bare.Error(), "once: acme, key k1: in_flight (in doubt)"; got != want {
		t.Errorf("%q, want %q", got, want)
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
		{nil, "", once.Applied}, {io.EOF, "", once.InDoubt},
		{err, once.CodeFailed, once.NotApplied}, {fmt.Errorf("x: %w", err), once.CodeFailed, once.NotApplied},
		{failure, "", once.NotApplied}, {fmt.Errorf("x: %w", failure), "", once.NotApplied},
		{&once.Failure{Code: "kept", Keep: true}, "", once.Applied},
		{&once.Error{}, "", once.InDoubt},
	} {
		if code, effect := once.CodeOf(tt.err), once.EffectOf(tt.err); code != tt.code || effect != tt.effect {
			t.Errorf("%v: %q, %s", tt.err, code, effect)
		}
	}
}

func TestEffectOfNothingIsInDoubt(t *testing.T) {
	var e once.Effect
	if e != once.InDoubt || e.String() != "in doubt" || once.NotApplied.String() != "not applied" || once.Applied.String() != "applied" {
		t.Error("an effect that nobody has set must prove nothing")
	}
}

func TestKinds(t *testing.T) {
	err := fmt.Errorf("x: %w", &store.Error{Kind: store.Lost, Err: io.EOF})
	if store.KindOf(err) != store.Lost || store.KindOf(io.EOF) != store.Other || store.KindOf(nil) != store.Other || !errors.Is(err, io.EOF) {
		t.Error("KindOf")
	}
	if got, want := err.Error(), "x: store: lost: EOF"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for k, want := range map[store.Kind]string{store.Other: "failed", store.Busy: "busy", store.Stale: "stale", store.Stale + 1: "invalid"} {
		if k.String() != want {
			t.Errorf("%d is %q", k, k)
		}
	}
	for s, want := range map[store.State]string{store.Absent: "absent", store.Running: "running", store.Done: "done", store.Unknown: "unknown", 9: "invalid"} {
		if s.String() != want {
			t.Errorf("%d is %q", s, s)
		}
	}
}
