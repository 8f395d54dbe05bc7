package rpc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
)

func TestJudge(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		fault    Fault
		want     retry.Class
		after    time.Duration
		keyless  retry.Class // what it is for a call that must not happen twice
		operated once.Code
	}{
		"unavailable":           {Fault{Code: Unavailable}, retry.Unknown, 0, retry.Unknown, ""},
		"unavailable, in 1 s":   {Fault{Code: Unavailable, After: s}, retry.Throttled, s, retry.Unknown, ""},
		"deadline":              {Fault{Code: DeadlineExceeded}, retry.Unknown, 0, retry.Unknown, ""},
		"internal":              {Fault{Code: Internal}, retry.Unknown, 0, retry.Unknown, ""},
		"no error of a status":  {Fault{Code: Unknown}, retry.Unknown, 0, retry.Unknown, ""},
		"canceled":              {Fault{Code: Canceled}, retry.Unknown, 0, retry.Unknown, ""},
		"exhausted":             {Fault{Code: ResourceExhausted}, retry.Final, 0, retry.Final, ""},
		"exhausted, in 1 s":     {Fault{Code: ResourceExhausted, After: s}, retry.RateLimited, s, retry.RateLimited, ""},
		"pushback":              {Fault{Code: ResourceExhausted, Pushback: []string{"1000"}}, retry.RateLimited, s, retry.RateLimited, ""},
		"pushback 0":            {Fault{Code: ResourceExhausted, Pushback: []string{"0"}}, retry.Throttled, 0, retry.Throttled, ""},
		"negative pushback":     {Fault{Code: Unavailable, Pushback: []string{"-1"}}, retry.Final, 0, retry.Final, ""},
		"absurd pushback":       {Fault{Code: Unavailable, Pushback: []string{"99999999999999999999"}}, retry.Final, 0, retry.Final, ""},
		"replayed":              {Fault{Code: Unavailable, Replayed: true}, retry.Final, 0, retry.Final, ""},
		"a bare aborted":        {Fault{Code: Aborted}, retry.Final, 0, retry.Final, ""},
		"not found":             {Fault{Code: NotFound}, retry.Final, 0, retry.Final, ""},
		"in flight":             {Fault{Code: Aborted, Reason: "IN_FLIGHT", After: s}, retry.InFlight, s, retry.InFlight, once.CodeInFlight},
		"mismatch":              {Fault{Code: FailedPrecondition, Reason: "MISMATCH"}, retry.Final, 0, retry.Final, once.CodeMismatch},
		"conflict":              {Fault{Code: Unavailable, Reason: "CONFLICT", After: s}, retry.Unknown, s, retry.Unknown, once.CodeConflict},
		"failed":                {Fault{Code: Internal, Reason: "FAILED"}, retry.Unknown, 0, retry.Unknown, once.CodeFailed},
		"misuse":                {Fault{Code: Internal, Reason: "MISUSE"}, retry.Final, 0, retry.Final, once.CodeMisuse},
		"no result":             {Fault{Code: FailedPrecondition, Reason: "RESULT_UNAVAILABLE"}, retry.Final, 0, retry.Final, once.CodeNoResult},
		"key missing":           {Fault{Code: InvalidArgument, Reason: "KEY_MISSING"}, retry.Final, 0, retry.Final, ""},
		"from a later version":  {Fault{Code: Unavailable, Reason: "NEW", Retryable: true}, retry.Unknown, 0, retry.Unknown, ""},
		"and a final one of it": {Fault{Code: Unavailable, Reason: "NEWER"}, retry.Final, 0, retry.Final, ""},
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
func TestKey(t *testing.T) {
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
