package once_test

import (
	"context"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestNameIsStored: the name of an operation is in its record however it ends, and a name that not every database can store is
// refused before anything runs.
func TestNameIsStored(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{Observer: once.Discard})
	for key, do := range map[string]func(op once.Operation) error{
		"done": func(op once.Operation) error {
			_, err := once.Do(t.Context(), e, op, charge("done"))
			return err
		},
		"failed": func(op once.Operation) error {
			_, err := once.Do(t.Context(), e, op, func(context.Context, tx) (string, error) {
				return "", &once.Failure{Code: "no"}
			})
			return err
		},
	} {
		_ = do(once.Operation{Scope: "s", Key: key, Name: "POST /refunds"})
		rec, err := s.Read(t.Context(), store.ID{Scope: "s", Key: key})
		if err != nil || rec.State != store.StateDone || rec.Name != "POST /refunds" {
			t.Errorf("%s: %s, %q, %v", key, rec.State, rec.Name, err)
		}
	}
	for _, name := range []string{strings.Repeat("n", 255+1), "a\nb", "\xff"} {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "refused", Name: name}, charge("refused"))
		if once.CodeOf(err) != once.CodeInvalid || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("the name %.10q: %v", name, err)
		}
	}
	wantEffects(t, s, "refused", 0)
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "longest", Name: strings.Repeat("n", 255)}, charge("longest"))
	must(t, err)
}
