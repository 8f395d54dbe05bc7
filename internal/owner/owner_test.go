package owner_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once/internal/owner"
)

// TestListedScopesOfEachOwner: without a door, all is listed, and what belongs to an owner is refused and has a range of its own. A door leads to the
// scopes of one owner.
func TestListedScopesOfEachOwner(t *testing.T) {
	scopes := []string{"", "a", "gateway", "gateway.", "gateway/", "gateway/a", "gateway/\U0010ffff", "gateway0", "m", "saga", "saga/", "saga/order", "saga/\xff", "saga0", "sagas/", "z", "\U0010ffff", "\xff"}
	in := func(r owner.Range, scope string) bool { return scope >= r.From && (r.Before == "" || scope < r.Before) }
	inside := owner.Enter(t.Context(), owner.Saga)
	for _, scope := range scopes {
		owned := strings.HasPrefix(scope, "saga/") || strings.HasPrefix(scope, "gateway/")
		if !in(owner.Listed(t.Context()), scope) || owned && !in(owner.Of(scope).Scopes(), scope) {
			t.Errorf("%q is in no range", scope)
		}
		if is := in(owner.Listed(inside), scope); is != strings.HasPrefix(scope, "saga/") {
			t.Errorf("behind the door of sagas %q is listed: %v", scope, is)
		}
		if err := owner.Check(t.Context(), scope); (err != nil) != owned || owned && !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%q: %v", scope, err)
		}
		if err := owner.Check(inside, scope); (err != nil) != strings.HasPrefix(scope, "gateway/") {
			t.Errorf("behind the door of sagas, %q: %v", scope, err)
		}
	}
}
