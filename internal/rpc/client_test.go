package rpc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
)

func TestJudgeEachCode(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		fault    Fault
		want     retry.Class
		after    time.Duration
		keyless  retry.Class // what it is for a call that must not happen twice
		operated once.Code
	}{
		"unavailable":           {Fault{Code: Unavailable}, retry.ClassUnknown, 0, retry.ClassUnknown, ""},
		"unavailable, in 1 s":   {Fault{Code: Unavailable, After: s}, retry.ClassThrottled, s, retry.ClassUnknown, ""},
		"deadline":              {Fault{Code: DeadlineExceeded}, retry.ClassUnknown, 0, retry.ClassUnknown, ""},
		"internal":              {Fault{Code: Internal}, retry.ClassUnknown, 0, retry.ClassUnknown, ""},
		"no error of a status":  {Fault{Code: Unknown}, retry.ClassUnknown, 0, retry.ClassUnknown, ""},
		"canceled":              {Fault{Code: Canceled}, retry.ClassUnknown, 0, retry.ClassUnknown, ""},
		"exhausted":             {Fault{Code: ResourceExhausted}, retry.ClassFinal, 0, retry.ClassFinal, ""},
		"exhausted, in 1 s":     {Fault{Code: ResourceExhausted, After: s}, retry.ClassRateLimited, s, retry.ClassRateLimited, ""},
		"pushback":              {Fault{Code: ResourceExhausted, Pushback: []string{"1000"}}, retry.ClassRateLimited, s, retry.ClassRateLimited, ""},
		"pushback 0":            {Fault{Code: ResourceExhausted, Pushback: []string{"0"}}, retry.ClassThrottled, 0, retry.ClassThrottled, ""},
		"negative pushback":     {Fault{Code: Unavailable, Pushback: []string{"-1"}}, retry.ClassFinal, 0, retry.ClassFinal, ""},
		"absurd pushback":       {Fault{Code: Unavailable, Pushback: []string{"99999999999999999999"}}, retry.ClassFinal, 0, retry.ClassFinal, ""},
		"replayed":              {Fault{Code: Unavailable, Replayed: true}, retry.ClassFinal, 0, retry.ClassFinal, ""},
		"a bare aborted":        {Fault{Code: Aborted}, retry.ClassFinal, 0, retry.ClassFinal, ""},
		"not found":             {Fault{Code: NotFound}, retry.ClassFinal, 0, retry.ClassFinal, ""},
		"in flight":             {Fault{Code: Aborted, Reason: "IN_FLIGHT", After: s}, retry.ClassInFlight, s, retry.ClassInFlight, once.CodeInFlight},
		"mismatch":              {Fault{Code: FailedPrecondition, Reason: "MISMATCH"}, retry.ClassFinal, 0, retry.ClassFinal, once.CodeMismatch},
		"conflict":              {Fault{Code: Unavailable, Reason: "CONFLICT", After: s}, retry.ClassUnknown, s, retry.ClassUnknown, once.CodeConflict},
		"failed":                {Fault{Code: Internal, Reason: "FAILED"}, retry.ClassUnknown, 0, retry.ClassUnknown, once.CodeFailed},
		"misuse":                {Fault{Code: Internal, Reason: "MISUSE"}, retry.ClassFinal, 0, retry.ClassFinal, once.CodeMisuse},
		"no result":             {Fault{Code: FailedPrecondition, Reason: "RESULT_UNAVAILABLE"}, retry.ClassFinal, 0, retry.ClassFinal, once.CodeNoResult},
		"over a quota":          {Fault{Code: ResourceExhausted, Reason: "STORED_BYTES", Retryable: true, After: s}, retry.ClassRateLimited, s, retry.ClassRateLimited, ""},
		"key missing":           {Fault{Code: InvalidArgument, Reason: "KEY_MISSING"}, retry.ClassFinal, 0, retry.ClassFinal, ""},
		"from a later version":  {Fault{Code: Unavailable, Reason: "NEW", Retryable: true}, retry.ClassUnknown, 0, retry.ClassUnknown, ""},
		"and a final one of it": {Fault{Code: Unavailable, Reason: "NEWER"}, retry.ClassFinal, 0, retry.ClassFinal, ""},
	} {
		test.fault.Err = errors.New("cause")
		err := test.fault.judge("/m", "k", true)
		if class, after := retry.Classify(err); class != test.want || after != test.after || !errors.Is(err, test.fault.Err) || once.CodeOf(err) != test.operated {
			t.Errorf("%s: %v, %v, %v", name, class, after, err)
		}
		if class, _ := retry.Classify(test.fault.judge("/m", "", false)); class != test.keyless {
			t.Errorf("%s, without a key: %v", name, class)
		}
	}
}

// However often and in whatever spelling a call has its key, it is one.
func TestKeyInAnySpelling(t *testing.T) {
	const two = "two idempotency keys"
	for _, test := range []struct {
		context string
		lines   []string
		want    string
	}{
		{"a b", nil, `"a b"`},
		{"", []string{"a b"}, "a b"},
		{"a b", []string{`"a b"`}, `"a b"`},
		{"a b", []string{"a b"}, "a b"},
		{`a"b`, []string{`"a\"b"`}, `"a\"b"`},
		{"a", []string{`"a";p=1`, "a"}, `"a";p=1`},
		{"", []string{"a", `"a"`}, "a"},
		{"a", []string{"b"}, two},
		{`"a"`, []string{`"a"`}, two}, // in metadata it is a
		{"", []string{"a", "b"}, two},
		{"a", []string{"a", "b"}, two},
		{"a", []string{`"a`}, two},
	} {
		ctx := t.Context()
		if test.context != "" {
			ctx = WithKey(ctx, test.context)
		}
		got, err := new(Client).key(ctx, Sent{Keys: test.lines})
		if test.want == two && (err == nil || !strings.Contains(err.Error(), two)) || test.want != two && (err != nil || got != test.want) {
			t.Errorf("%q and %q: %q, %v", test.context, test.lines, got, err)
		}
	}
}
