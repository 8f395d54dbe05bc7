package doctor

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once/store/memstore"
)

// frail is a store that may lose what it has confirmed.
type frail struct{ err error }

func (f frail) Check(context.Context) error { return f.err }
func (frail) Volatile() string              { return "All may be lost." }

// TestAStoreWithoutSQL is asked whether it can work, and what it may lose.
func TestAStoreWithoutSQL(t *testing.T) {
	for _, c := range []struct {
		store any
		want  map[string]Finding
	}{
		{memstore.New(), nil},
		{frail{}, map[string]Finding{"store": {Verdict: VerdictOK}, "volatile": {Verdict: VerdictWarn, Says: "All may be lost."}}},
		{frail{errors.New("it evicts keys. Try: noeviction")}, map[string]Finding{
			"store": {Verdict: VerdictFail, Says: "it evicts keys.", Try: "noeviction"}, "volatile": {Verdict: VerdictWarn, Says: "All may be lost."},
		}},
	} {
		r, err := Examine(t.Context(), Config{Store: c.store, Name: "mail"})
		if err != nil || len(r.Findings) != len(c.want) || r.Database != "mail" {
			t.Errorf("%+v, %v, want %+v", r, err, c.want)
		}
		for _, f := range r.Findings {
			want := c.want[f.Check]
			if f.Verdict != want.Verdict || want.Says != "" && f.Says != want.Says || want.Try != "" && f.Try != want.Try || (f.Try == "") != (f.Verdict == VerdictOK) {
				t.Errorf("%s: %+v, want %+v", f.Check, f, want)
			}
		}
	}
	if _, err := Examine(t.Context(), Config{Name: "nothing"}); err == nil {
		t.Error("nothing to examine, and no error")
	}
}
