package rpc

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
)

// Client repeats calls that have failed.
type Client struct {
	Policy retry.Policy
	Keys   bool
}

// Sent describes a call to be made.
type Sent struct {
	Destination string   // the destination whose retry budget is used
	Method      string   // "/package.Service/Method"
	Keys        []string // the keys that the metadata of the call already contains
	Safe        bool     // the declaration of the method says that the call can be repeated
}

// Do makes attempts at a call until one succeeds or the policy stops. All attempts have the same key; "" means no key.
func (c *Client) Do(ctx context.Context, s Sent, attempt func(ctx context.Context, n int, key string) (fault *Fault)) error {
	key, err := c.key(ctx, s)
	if err != nil {
		return err
	}
	repeatable := key != "" || s.Safe
	p := c.Policy
	// Without a key, a second attempt could take effect twice.
	p.Unsafe = p.Unsafe || !repeatable
	if p.Budget == nil {
		p.Budget = retry.BudgetFor(s.Destination)
	}
	return retry.Do(ctx, &p, func(ctx context.Context, n int) error {
		if f := attempt(ctx, n, key); f != nil {
			return f.judge(s.Method, key, repeatable)
		}
		return nil
	})
}

type keyOfContext struct{}

// WithKey returns a context whose calls have this key.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfContext{}, key)
}

func (c *Client) key(ctx context.Context, s Sent) (string, error) {
	key, given := ctx.Value(keyOfContext{}).(string)
	// An interceptor may have set a key as well. The two must agree, because only one can be sent.
	for _, k := range s.Keys {
		if parsedKey(k) != parsedKey(s.Keys[0]) || given && parsedKey(k) != key {
			return "", errors.New("once: the call has two idempotency keys. Try: a separate context for each intent")
		}
	}
	switch {
	case len(s.Keys) > 0:
		return s.Keys[0], nil
	case !given && c.Keys && !s.Safe:
		return once.NewKey(), nil
	case !given:
		return "", nil
	}
	if err := keyname.Check(key); err != nil {
		return "", err
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r > 0x7e }) {
		return "", errors.New("once: the key has characters that are not ASCII, and metadata cannot contain them. Try: a key from once.NewKey or once.DeriveKey")
	}
	if wire.NeedsQuotes(key) {
		key = wire.QuoteKey(key)
	}
	return key, nil
}

// parsedKey returns the key in a line of metadata, with or without quotation marks.
func parsedKey(line string) string {
	if key, err := wire.ParseKey(line, false); err == nil {
		return key
	}
	return line // the server refuses such a line
}

// Fault is a failed attempt, as the client sees it.
type Fault struct {
	Err       error
	Code      Code
	Reason    string        // the reason of a google.rpc.ErrorInfo of our domain
	Retryable bool          // from the metadata of this ErrorInfo
	After     time.Duration // from a google.rpc.RetryInfo
	Pushback  []string      // the values of the metadata grpc-retry-pushback-ms
	Replayed  bool          // the answer comes from an earlier attempt
}

// judge returns the error of f in the form of package retry. An error of the server's engine is returned as the same
// *once.Error.
func (f *Fault) judge(method, key string, repeatable bool) error {
	if f.Replayed { // every attempt with this key gets the same answer
		return retry.Permanent(f.Err)
	}
	if f.Reason != "" {
		return f.engineError(method, key)
	}
	if len(f.Pushback) > 0 {
		// A negative value, or another text, is the request of the server not to try again.
		ms, err := strconv.ParseUint(f.Pushback[0], 10, 31)
		if err != nil {
			return retry.Permanent(f.Err)
		}
		f.After = time.Duration(ms) * time.Millisecond
	}
	switch f.Code {
	case Canceled, Unknown, DeadlineExceeded, Internal, Unavailable:
		if f.After > 0 && repeatable { // without a key, a pause must not look like a proof that nothing was done
			return retry.After(f.Err, f.After)
		}
		return f.Err
	case ResourceExhausted: // without a time to return, the reason may be a message that is too large
		if f.After > 0 || len(f.Pushback) > 0 {
			return retry.AfterLimit(f.Err, f.After)
		}
	}
	return retry.Permanent(f.Err)
}

// engineError returns the error of the server's engine, if the client may rely on it.
func (f *Fault) engineError(method, key string) error {
	code := once.Code(strings.ToLower(f.Reason))
	// Other reasons, such as a used-up quota, are not codes of the engine.
	if !slices.Contains(returnedCodes, code) {
		switch {
		case !f.Retryable:
			return retry.Permanent(f.Err)
		case f.Code == ResourceExhausted && f.After > 0: // a quota says when the next call counts
			return retry.AfterLimit(f.Err, f.After)
		}
		return f.Err
	}
	e := &once.Error{Code: code, Scope: method, Key: key, After: f.After, Err: f.Err} // in doubt: of an earlier attempt nothing is known, or not whether its writes were kept
	return e
}

// returnedCodes contains the codes that a client gets back.
var returnedCodes = []once.Code{
	once.CodeInFlight, once.CodeMismatch, once.CodeUnknown, once.CodeStale, once.CodeFailed, once.CodeAborted,
	once.CodeConflict, once.CodeUnavailable, once.CodeNoResult, once.CodeMisuse,
}
