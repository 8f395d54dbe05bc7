package restore

import (
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/doctor"
)

// TestARestoredConsumer: a consumer that is restored has acknowledged what it has forgotten. once outbox resend --since at the sender brings it back:
// each message is applied once, in its order, and those of before the backup are duplicates.
func TestARestoredConsumer(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		p := newPair(t, kind)
		p.retains = time.Hour
		p.add("1", "a", "b")
		p.deliver()
		moment := p.now(p.consumer)
		restore := backup(t, p.consumer)
		p.add("2", "a", "b", "lost")
		p.deliver()
		restore()

		p.add("3", "a", "lost")
		p.deliver()
		p.wantEffects("without the command", ordered, "1 a", "1 b") // those behind the forgotten ones wait
		if f := examine(t, p.consumer, moment)["restore_inbox"]; f.Verdict != doctor.VerdictWarn || len(f.First) != 2 || !strings.Contains(f.Try, "once outbox resend --since "+moment.UTC().Format(time.RFC3339)) {
			t.Errorf("%+v", f)
		}
		p.operate(p.sender, func(o *operate.Operator) error {
			s := operate.Since{At: moment, Topic: topic}
			counted, err := o.Outbox.CountSince(t.Context(), s)
			must(t, err)
			n, err := o.Outbox.ResendSince(t.Context(), by, s)
			if n != 5 || counted != n { // those of the time that is lost, and those behind them
				t.Errorf("%d messages are sent again, %d were counted", n, counted)
			}
			none, noneErr := o.Outbox.CountSince(t.Context(), operate.Since{At: moment, Topic: "another"})
			must(t, noneErr)
			if none != 0 {
				t.Errorf("%d messages of another topic", none)
			}
			return err
		})
		p.deliver()
		p.drain()
		all := []string{"1 a", "1 b", "2 a", "2 b", "2 lost", "3 a", "3 lost"}
		p.wantEffects("in the end", ordered, all...)
	})
}
