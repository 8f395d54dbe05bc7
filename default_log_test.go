package once_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// defaultLog makes slog.Default() write to the buffer that it returns, until the test ends.
func defaultLog(t *testing.T) *bytes.Buffer {
	t.Helper()
	out, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(out, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return out
}

// TestDefaultLog: with no observer, warnings and errors go to slog.Default(), and what is in
// order is not logged.
func TestDefaultLog(t *testing.T) {
	nothing := func(context.Context, tx) (string, error) { return "", nil }
	fail := func(context.Context, tx) (string, error) { return "", errors.New("the disk of the printer is full") }
	empty := func() store.Store[tx] { return memstore.New() }
	op := once.Operation{Scope: "acme", Key: "k"}
	for _, c := range []struct {
		name string
		s    func() store.Store[tx]
		h    handler
		want []string // of each line, in order
	}{
		{"executed", empty, charge("k"), nil},
		{"a handler fails", empty, fail, []string{`level=WARN msg="once: finished" scope=acme idempotency_key=`}},
		{"its error", empty, fail, []string{`error="the disk of the printer is full"`}},
		{"effect outside of the transaction", empty, nothing, []string{"Try: write through the transaction"}},
		{"the store is down", faulty(storetest.BeginDown), charge("k"), []string{"outcome=unavailable"}},
		{"a lost COMMIT", faulty(storetest.CommitLostApplied), charge("k"), []string{`level=WARN msg="once: in_doubt"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := defaultLog(t)
			e := once.New(c.s(), once.Config{})
			_, _ = once.Do(t.Context(), e, op, c.h) // what it returns is not the subject
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(c.want) {
				t.Fatalf("%d lines, want %d:\n%s", len(lines), len(c.want), out)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) || strings.Contains(lines[i], "handler=") {
					t.Errorf("%s\nwant %s, and no durations that were not measured", lines[i], want)
				}
			}
		})
	}
}

// TestDefaultLogFollowsSetDefault: an engine is often made before the program sets its logger.
func TestDefaultLogFollowsSetDefault(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	out := defaultLog(t)
	_, _ = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(context.Context, tx) (string, error) { return "", errors.New("x") })
	if !strings.Contains(out.String(), "outcome=failed") {
		t.Errorf("logged: %q", out)
	}
}

// TestDiscardSwitchesTheLogOff: an observer that ignores everything switches the log off.
func TestDiscardSwitchesTheLogOff(t *testing.T) {
	out := defaultLog(t)
	e := once.New(memstore.New(), once.Config{Observer: once.Discard})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(context.Context, tx) (string, error) { return "", errors.New("x") })
	if once.CodeOf(err) != once.CodeFailed || out.Len() > 0 {
		t.Errorf("%v; logged: %q", err, out)
	}
}

// TestAfterCommit: it is called after each commit, and neither after a replay nor after a failure. It leaves the default log on.
func TestAfterCommit(t *testing.T) {
	out, calls := defaultLog(t), 0
	e := once.New(memstore.New(), once.Config{AfterCommit: func() { calls++ }})
	op := once.Operation{Scope: "acme", Key: "k"}
	for range 2 {
		if _, err := once.Do(t.Context(), e, op, charge("k")); err != nil || calls != 1 || out.Len() > 0 {
			t.Errorf("%v, %d calls, log %q", err, calls, out)
		}
	}
	fail := func(context.Context, tx) (string, error) { return "", errors.New("no paper") }
	_, _ = once.Do(t.Context(), e, once.Operation{Scope: "acme", Key: "k2"}, fail)
	if calls != 1 || !strings.Contains(out.String(), "no paper") {
		t.Errorf("%d calls, the log is %q", calls, out)
	}
}
