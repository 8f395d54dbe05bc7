package owner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/owner"
)

// TestRanges: each scope is in one range, and in none of it if it belongs to an owner. A door leads to the scopes of one owner.
func TestRanges(t *testing.T) {
	scopes := []string{"", "a", "gateway", "gateway.", "gateway/", "gateway/a", "gateway/\U0010ffff", "gateway0", "m", "saga", "saga/", "saga/order", "saga/\xff", "saga0", "sagas/", "z", "\U0010ffff", "\xff"}
	count := func(ctx context.Context, scope string) (n int) {
		for _, r := range owner.Ranges(ctx) {
			if scope >= r.From && (r.Before == "" || scope < r.Before) {
				n++
			}
		}
		return n
	}
	inside := owner.Enter(t.Context(), owner.Saga)
	for _, scope := range scopes {
		owned := strings.HasPrefix(scope, "saga/") || strings.HasPrefix(scope, "gateway/")
		if n := count(t.Context(), scope); (n == 0) != owned || n > 1 {
			t.Errorf("%q is in %d ranges", scope, n)
		}
		if n := count(inside, scope); (n == 1) != strings.HasPrefix(scope, "saga/") {
			t.Errorf("behind the door of sagas %q is in %d ranges", scope, n)
		}
		if err := owner.Check(t.Context(), scope); (err != nil) != owned || owned && !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%q: %v", scope, err)
		}
		if err := owner.Check(inside, scope); (err != nil) != strings.HasPrefix(scope, "gateway/") {
			t.Errorf("behind the door of sagas, %q: %v", scope, err)
		}
	}
}
