// Package owner knows the scopes that belong to capabilities: their records have a form of their own, and only their package may
// execute, resume, decide or forget them.
package owner

import (
	"context"
	"fmt"
	"strings"
)

// Prefix is how the scopes of an owner begin.
type Prefix string

// The owners. The prefixes are stored: they never change.
const (
	Saga    Prefix = "saga/"
	Gateway Prefix = "gateway/"
)

// all are in the order of their bytes.
var all = []Prefix{Gateway, Saga}

// Of returns the owner of a scope, "" if it belongs to the user.
func Of(scope string) Prefix {
	for _, p := range all {
		if strings.HasPrefix(scope, string(p)) {
			return p
		}
	}
	return ""
}

type entered struct{}

// Enter is the door for the package of an owner: in the context that it returns, the scopes of p may be used.
func Enter(ctx context.Context, p Prefix) context.Context {
	return context.WithValue(ctx, entered{}, p)
}

// Check refuses a scope that belongs to an owner, unless ctx comes from its door.
func Check(ctx context.Context, scope string) error {
	p := Of(scope)
	if p == "" || ctx.Value(entered{}) == p {
		return nil
	}
	return &ReservedError{p}
}

// ReservedError refuses a scope that belongs to an owner.
type ReservedError struct{ prefix Prefix }

func (e *ReservedError) Error() string {
	return fmt.Sprintf("the scope begins with %q, which is reserved for the package of this name. Try: another scope, such as one that begins with the tenant. For operations of that package, use its functions and commands", string(e.prefix))
}

// Range is a range of scopes in the order of their bytes: from From on, and before Before. "" means no bound.
type Range struct{ From, Before string }

// Listed returns the range to list in ctx: the scopes of the owner that the request's door belongs to, or else all. [Check] refuses scopes in
// the range that belong to an owner.
func Listed(ctx context.Context) Range {
	if p, is := ctx.Value(entered{}).(Prefix); is {
		return p.Scopes()
	}
	return Range{}
}

// Scopes returns the range of the scopes of p.
func (p Prefix) Scopes() Range {
	last := len(p) - 1
	return Range{string(p), string(p[:last]) + string(p[last]+1)}
}
