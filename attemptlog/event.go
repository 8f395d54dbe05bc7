package attemptlog

import (
	"strings"
	"unicode"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/attempts"
)

// These are the longest stored texts, in bytes. They bound the memory of the queue.
const (
	maxID    = 128
	maxCause = 32
)

// attemptOf returns the row of the log for the end of a call.
func attemptOf(e once.Event) attempts.Attempt {
	return attempts.Attempt{
		Scope: short(e.Scope, keyname.MaxScope), KeyHash: e.KeyHash,
		Outcome: string(e.Outcome), Effect: e.Effect.String(), From: e.From, To: e.To, Cause: short(e.Cause(), maxCause),
		Attempt: e.Attempt.Number, Runs: e.Runs,
		RequestID: short(e.Attempt.RequestID, maxID), CorrelationID: short(e.Attempt.CorrelationID, maxID),
		LockWait: e.Acquire + e.LockWait + e.LookUp, Waited: e.Waited, Handler: e.Handler, Commit: e.Commit, Total: e.Total,
	}
}

// short cuts s to at most n bytes. The result does not keep the rest of s in memory.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.Clone(s[:n])
}

// clean makes the texts of an attempt acceptable for every database. The engine refuses an operation with an invalid scope, but the log has its attempt, too.
func clean(a *attempts.Attempt) {
	for _, s := range []*string{&a.Scope, &a.Cause, &a.RequestID, &a.CorrelationID, &a.Node} {
		*s = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return unicode.ReplacementChar
			}
			return r
		}, strings.ToValidUTF8(*s, string(unicode.ReplacementChar)))
	}
}
