package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A call that one version of the program has begun, and that may have been sent, is not sent with another request by the next version:
// neither with none in place of the frozen one, nor with a frozen one in place of none.
func TestCallThatFreezesItsRequestNow(t *testing.T) {
	timeout := errors.New("timeout")
	for _, tt := range []struct {
		name          string
		before, after []byte // nil: Call
		finding       lease.Finding
		refused       bool
		sent          string // by the second version
	}{
		{"the same", []byte("a"), []byte("b"), lease.Unclear, false, "a"},
		{"an empty one", []byte(""), []byte("b"), lease.Unclear, false, ""},
		{"it freezes now", nil, []byte("b"), lease.Unclear, true, ""},
		{"it freezes no longer", []byte("a"), nil, lease.Unclear, true, ""},
		{"it freezes now, and the first key is void", nil, []byte("b"), lease.Voided, false, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New()
			policy := lease.CallPolicy{SafeToRepeat: true}
			if tt.finding != lease.Unclear {
				policy = lease.CallPolicy{Check: lease.Check(func(context.Context, string) (string, lease.Finding, error) { return "", tt.finding, nil })}
			}
			ask := func(request []byte, answer error) (sent []string, err error) {
				_, err = once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
					if request == nil {
						return lease.Call(ctx, r, "charge", func(context.Context, string) (string, error) {
							sent = append(sent, "by Call")
							return "paid", answer
						}, policy)
					}
					return lease.CallWith(ctx, r, "charge", request, func(_ context.Context, _ string, request []byte) (string, error) {
						sent = append(sent, string(request))
						return "paid", answer
					}, policy)
				})
				return sent, err
			}
			if tt.finding == lease.Unclear {
				_, err := ask(tt.before, timeout)
				wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
			} else {
				dieInCall(s, policy)
				s.Advance(2 * lease.DefaultTTL)
			}
			sent, err := ask(tt.after, nil)
			if !tt.refused {
				must(t, err)
				if len(sent) != 1 || sent[0] != tt.sent {
					t.Errorf("%q is sent, want %q", sent, tt.sent)
				}
				return
			}
			wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
			if len(sent) != 0 || !errors.Is(err, lease.ErrMisused) || !errors.Is(err, lease.ErrUnknown) {
				t.Errorf("%q is sent, %v", sent, err)
			}
			if rec := wantState(t, s, store.StateWaiting); !rec.CallStarted {
				t.Error("the intent is gone")
			}
			if _, err := ask(tt.before, nil); err != nil { // the first version goes on
				t.Error(err)
			}
		})
	}
}

// A program that has other names for phases which have ended executes them again. It is told, once: when it makes a call, or when it ends.
func TestRenamedPhasesAreTold(t *testing.T) {
	for _, tt := range []struct {
		now   string // the phases of the next version
		phase string // a word of the warning; "": there is none
	}{
		{"tx a, call charge, tx b", ""},
		{"call charge, tx b, tx a", ""},
		{"call mail, tx a, call charge", `"[a charge]"`}, // reordered: it may be a mistake
		{"tx a, tx b, call charge", ""},
		{"tx a, call charge anew, tx b", `[charge]`},
		{"tx a, tx b", `[charge]`},
		{"tx b", `"[a charge]"`},
	} {
		t.Run(tt.now, func(t *testing.T) {
			s := memstore.New()
			var text bytes.Buffer
			ask := func(phases string, last error) error {
				e := once.New(lease.New(s, lease.Config{Log: slog.New(slog.NewTextHandler(&text, nil))}), once.Config{Observer: once.Discard})
				_, err := once.Do(t.Context(), e, op, func(ctx context.Context, r *lease.Run) (string, error) {
					for phase := range strings.SplitSeq(phases, ", ") {
						kind, name, _ := strings.Cut(phase, " ")
						var err error
						if kind == "tx" {
							_, err = lease.InTx(ctx, r, s, name, put(name, "1"))
						} else {
							_, err = lease.Call(ctx, r, name, func(context.Context, string) (string, error) { return "", nil }, lease.CallPolicy{})
						}
						if err != nil {
							return "", err
						}
					}
					return "", last
				})
				return err
			}
			wantOutcome(t, ask("tx a, call charge", errors.New("failed")), once.CodeFailed, once.EffectInDoubt)
			if text.Len() > 0 {
				t.Errorf("nothing is renamed: %s", &text)
			}
			must(t, ask(tt.now, nil))
			lines := strings.Count(text.String(), "\n")
			if tt.phase == "" && lines != 0 || tt.phase != "" && (lines != 1 || !strings.Contains(text.String(), "phases="+tt.phase)) || strings.Contains(text.String(), fmt.Sprintf("=%s ", op.Key)) {
				t.Errorf("the log has\n%s", &text)
			}
		})
	}
}
