// Package owner contains the scopes that belong to capabilities. Their records have a special form, and only the package of the
// owner may execute, resume, decide or forget them.
package owner

import (
	"context"
	"fmt"
	"strings"
)

// Prefix is the beginning of the scopes of an owner.
type Prefix string

// These are the owners. The prefixes are stored, so they never change.
const (
	Saga    Prefix = "saga/"
	Gateway Prefix = "gateway/"
)

// all contains the prefixes in byte order.
var all = []Prefix{Gateway, Saga}

// Of returns the owner of a scope, or "" if the scope belongs to the user.
func Of(scope string) Prefix {
	for _, p := range all {
		if strings.HasPrefix(scope, string(p)) {
			return p
		}
	}
	return ""
}

type entered struct{}

// Enter returns a context in which the scopes of p may be used. Only the package of the owner calls it.
func Enter(ctx context.Context, p Prefix) context.Context {
	return context.WithValue(ctx, entered{}, p)
}

// Check refuses a scope that belongs to an owner, unless ctx comes from Enter of this owner.
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

// Range is a range of scopes in byte order: from From, and before Before. An empty text means no bound.
type Range struct{ From, Before string }

// Listed returns the range of scopes to list in ctx: the scopes of the owner whose Enter made ctx, otherwise all scopes. [Check]
// refuses scopes in this range that belong to an owner.
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
