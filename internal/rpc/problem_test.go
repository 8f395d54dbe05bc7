package rpc

import (
	"os"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// The tables in the documentation of both adapters say what is sent, and a client of ours
// goes on exactly after what is retryable.
func TestProblemTables(t *testing.T) {
	names := map[Code][2]string{
		InvalidArgument: {"InvalidArgument", "invalid_argument"}, Aborted: {"Aborted", "aborted"},
		FailedPrecondition: {"FailedPrecondition", "failed_precondition"}, Internal: {"Internal", "internal"},
		Unavailable: {"Unavailable", "unavailable"}, ResourceExhausted: {"ResourceExhausted", "resource_exhausted"},
	}
	for i, file := range []string{"../../oncegrpc/doc.go", "../../onceconnect/doc.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(strings.TrimSuffix(line, ", and only with Config.Quota\n")); len(f) == 4 {
				rows[f[1]] = f[2] + " " + f[3]
			}
		}
		sent := []*Problem{&overQuotaProblem}
		for code := range problems {
			sent = append(sent, problemOf(&once.Error{Code: code}))
		}
		for _, p := range sent {
			want := names[p.Code][i] + map[bool]string{true: " yes", false: " no"}[p.Retryable]
			if rows[p.Reason] != want {
				t.Errorf("%s says %q of %s, it is %q", file, rows[p.Reason], p.Reason, want)
			}
			f := Fault{Err: p, Code: p.Code, Reason: p.Reason, Retryable: p.Retryable}
			if class, _ := retry.Classify(f.judge("/m", "k", true)); (class != retry.ClassFinal) != p.Retryable {
				t.Errorf("a client takes %s for %v", p.Reason, class)
			}
		}
	}
}

// TestMessageTooLargeForTheDatabase: the same again fails the same.
func TestMessageTooLargeForTheDatabase(t *testing.T) {
	err := &once.Error{Code: once.CodeFailed, Effect: once.EffectNotApplied, Err: &store.Error{Err: &toolarge.Error{Try: "less"}}}
	p := problemOf(err)
	if p.Retryable || p.Handler || p.Code != Internal || !strings.Contains(p.Message, "too large") {
		t.Errorf("%+v", p)
	}
	f := Fault{Err: p, Code: p.Code, Reason: p.Reason, Retryable: p.Retryable}
	if class, _ := retry.Classify(f.judge("/m", "k", true)); class != retry.ClassFinal {
		t.Errorf("a client takes it for %v", class)
	}
}

// TestUnfinishedWork: work under a lease has stopped after a phase. The client is not told that nothing was applied.
func TestUnfinishedWork(t *testing.T) {
	for _, cause := range []error{&store.Error{Kind: store.KindPartial}, &toolarge.Error{Try: "less"}} {
		p := problemOf(&once.Error{Code: once.CodeFailed, Effect: once.EffectInDoubt, Err: cause})
		if !strings.Contains(p.Message, "It is not known whether") {
			t.Errorf("%+v", p)
		}
	}
}
