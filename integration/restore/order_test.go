package restore

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestARenumberedInboxKeepsTheOrder: only the first message behind the number of Renumber is the next one of its key, and not if an earlier one is parked or
// a dead letter. Those behind it wait for it.
func TestARenumberedInboxKeepsTheOrder(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		s, _ := harness.OpenSQL(t, harness.Migrated(t, kind, migrations))
		in := inbox.New(once.New(s, once.Config{Observer: once.Discard}), inbox.Config{Consumer: ordered, Order: inbox.InOrder, Observer: inbox.Observers()})
		var applied []string
		send := func(key string, seq int64, want inbox.Outcome) {
			t.Helper()
			m := message.Message{ID: fmt.Sprintf("%s-%d", key, seq), Source: source, Topic: topic, Key: key, Type: "order", Seq: seq}
			got, err := in.Handle(t.Context(), m, func(_ context.Context, _ *sql.Tx, m message.Message) error {
				applied = append(applied, m.ID)
				return nil
			})
			if err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", m.ID, got, err, want)
			}
		}
		const after = 1000
		send("a", 1, inbox.Applied)
		send("gap", 1, inbox.Applied)
		send("gap", 3, inbox.Parked)
		send("early", after+1, inbox.Parked)
		for _, want := range []int{1, 0} {
			if n, err := in.Renumber(t.Context(), source, after, by.Who, by.Reason); n != want || err != nil {
				t.Errorf("%d keys waited, want %d, %v", n, want, err)
			}
		}
		send("a", after+2, inbox.Parked)
		send("a", after+1, inbox.Applied) // and then the one behind it
		send("a", after+3, inbox.Applied)
		send("gap", after+1, inbox.Parked)
		send("new", after+1, inbox.Applied)
		send("early", after+2, inbox.Parked) // Run applies both
		if got, want := fmt.Sprint(applied), "[a-1 gap-1 a-1001 a-1002 a-1003 new-1001]"; got != want {
			t.Errorf("%s was applied, want %s", got, want)
		}
		if gaps, err := in.Gaps(t.Context()); err != nil || len(gaps) != 1 || gaps[0].Key != "gap" || gaps[0].Seq != 2 {
			t.Errorf("%v, %v", gaps, err)
		}
	})
}
