package deadletter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/message"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestRelayLettersOfOneID: two messages of an outbox may have the same ID in different keys. Both are letters, and both are redriven.
func TestRelayLettersOfOneID(t *testing.T) {
	testenv.Prove(t)
	on(t, testRelayLettersOfOneID)
}

func testRelayLettersOfOneID(t *testing.T, g *fixture) {
	for part, key := range []string{"bad", "worse"} {
		g.exec(t, `insert into once_outbox (part, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) values (?, 't', ?, 1, '01945a00-0000-7000-8000-000000000001', 'e', 's', ?, ?, ?, '', NOW)`,
			int64(part), key, []byte{}, []byte("x"), false)
	}
	to := new(refusing)
	policy := &retry.Policy{Attempts: 2, Base: -1, Total: -1}
	inBackground(t, g.box.Relay(to, outbox.RelayConfig{DeadLetters: true, Policy: policy, Observer: outbox.Log(nil)}).Run)
	eventually(t, 2, func() any { return g.count(t, "select count(*) from once_outbox_failed where next_at is null") })
	list, _, err := g.letters().List(t.Context(), deadletter.Filter{})
	must(t, err)
	if len(list) != 2 {
		t.Fatalf("%d letters of two messages that were given up", len(list))
	}
	for _, l := range list {
		_, attempts, err := g.letters().Show(t.Context(), l.UID)
		must(t, err)
		want(t, len(attempts), 2)
	}
	to.mended.Store(true)
	r := g.redrive(t, deadletter.Filter{}, signed)
	eventually(t, 0, func() any { return g.count(t, "select count(*) from once_outbox") })
	want(t, g.progress(t, r.UID), "done total 2 waiting 0 applied 2 failed 0 discarded 0")
}

// refusing refuses everything until it is mended.
type refusing struct{ mended atomic.Bool }

// Publish implements outbox.Publisher.
func (d *refusing) Publish(_ context.Context, messages []message.Message) []error {
	errs := make([]error, len(messages))
	for i := range errs {
		if !d.mended.Load() {
			errs[i] = errors.New("refused")
		}
	}
	return errs
}

// TestLetterIsWritten: a letter that is not written is an error, so that its message is not acknowledged.
func TestLetterIsWritten(t *testing.T) {
	g := newOn(t, harness.SQLite)
	err := letter.Within(t.Context(), g, func(ctx context.Context, r sqlplane.Runner) error {
		return letter.Bury(ctx, forgetful{r}, g.Dialect(), newLetter("e"))
	})
	if err == nil {
		t.Error("the letter is not there, and there is no error")
	}
	want(t, g.count(t, "select count(*) from once_deadletter"), 0)
}

// forgetful changes nothing, as a table does whose triggers or views swallow an insert.
type forgetful struct{ sqlplane.Runner }

// Exec implements sqlplane.Runner.
func (forgetful) Exec(context.Context, store.Statement) (int64, error) { return 0, nil }
