package integration

import (
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestAFirstAttemptOfWhatIsDone: who wrongly says that an operation is asked for the first time
// gets the stored answer all the same. On pgxstore, MySQL and MariaDB the handler runs before, and is
// rolled back; the other stores look first, or claim.
func TestAFirstAttemptOfWhatIsDone(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, name string) {
		want := 0
		switch name {
		case harness.Pgx, harness.MySQL, harness.MariaDB:
			want = 1
		}
		g := newTestDB(t, name)
		op := operation(once.NewKey())
		if _, _, err := g.open(t, setup{}).Do(t.Context(), op, work{key: op.Key, attempt: "first"}); err != nil {
			t.Fatal(err)
		}
		op.Attempt.Number = 1
		runs := 0
		got, replayed, err := g.open(t, setup{}).Do(t.Context(), op, work{key: op.Key, attempt: "lie", before: func() { runs++ }})
		if err != nil || !replayed || got.Attempt != "first" || runs != want {
			t.Errorf("%+v, replayed %t, %v; the whole handler ran %d times, want %d", got, replayed, err, runs, want)
		}
		if s, err := g.state(t.Context(), op.Key); err != nil || s != executed("first") {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
