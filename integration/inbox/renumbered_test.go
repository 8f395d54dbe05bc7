package inbox

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
)

// TestMessageAfterARenumberingIsGivenUp: the first message of a key after Renumber becomes a dead letter if its handler fails or if it is too large. Its key waits for the letter, and continues when the letter is discarded.
func TestMessageAfterARenumberingIsGivenUp(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testMessageAfterARenumberingIsGivenUp[pgx.Tx], testMessageAfterARenumberingIsGivenUp[*sql.Tx])
}

func testMessageAfterARenumberingIsGivenUp[TX any](t *testing.T, g *fixture[TX]) {
	in, told := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(2), MaxPayload: 100})
	for _, key := range []string{"fails", "large"} {
		o, err := in.Handle(t.Context(), ordered(key, 1), g.book)
		want(t, o, err, inbox.Applied)
	}
	_, err := in.Renumber(t.Context(), "s", 100, "ada", "restored")
	must(t, err)

	refuses := g.failing(named("fails-101", "new-101"))
	for _, key := range []string{"fails", "new"} { // no message of the second one was applied before
		if o, err := in.Handle(t.Context(), ordered(key, 101), refuses); !errors.Is(err, errRefused) {
			t.Errorf("%q, %v", o, err)
		}
		o, err := in.Handle(t.Context(), ordered(key, 101), refuses)
		want(t, o, err, inbox.DeadLettered)
	}
	large := ordered("large", 101)
	large.Payload = make([]byte, 101)
	o, err := in.Handle(t.Context(), large, g.book)
	want(t, o, err, inbox.DeadLettered)
	if len(told.of(inbox.EventFailed)) != 2 || len(told.of(inbox.EventDeadLettered)) != 3 || g.letters(t) != 3 {
		t.Errorf("told: %+v", told.list)
	}

	for _, key := range []string{"fails", "new", "large"} {
		o, err := in.Handle(t.Context(), ordered(key, 102), g.book)
		want(t, o, err, inbox.Parked)
	}
	_, err = deadletter.New(g.store, deadletter.Config{}).Discard(t.Context(), deadletter.Filter{}, "ada", "they are lost")
	must(t, err)
	for _, key := range []string{"fails", "new", "large"} {
		o, err := in.Handle(t.Context(), ordered(key, 102), g.book)
		want(t, o, err, inbox.Applied)
	}
}

// TestAttemptThatIsNotStoredIsTold: the observer hears of a failed attempt that cannot be stored, and the error says why: the database has failed, or the message is no longer the next one of its key.
func TestAttemptThatIsNotStoredIsTold(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testAttemptThatIsNotStoredIsTold[pgx.Tx], testAttemptThatIsNotStoredIsTold[*sql.Tx])
}

func testAttemptThatIsNotStoredIsTold[TX any](t *testing.T, g *fixture[TX]) {
	other, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder})
	_, err := other.Renumber(t.Context(), "s", 100, "ada", "restored")
	must(t, err)
	for key, meanwhile := range map[string]func() error{
		"database": func() error { return errInjected },
		"overtaken": func() error { // the message before the renumbering arrives after the handler has failed
			o, err := other.Handle(t.Context(), ordered("overtaken", 50), g.book)
			want(t, o, err, inbox.Parked)
			return nil
		},
	} {
		s := &pointStore[TX]{Store: g.store, at: func(name string) error {
			if name == "within" {
				return meanwhile()
			}
			return nil
		}}
		in, told := g.inboxOn(once.New(s, once.Config{Observer: once.Discard}), inbox.Config{Order: inbox.InOrder, Policy: soon(1)})
		o, err := in.Handle(t.Context(), ordered(key, 101), g.failing(named(key+"-101")))
		if !errors.Is(err, errRefused) || strings.Contains(err.Error(), "payload") {
			t.Errorf("%s: %q, %v", key, o, err)
		}
		if key == "overtaken" && !strings.Contains(err.Error(), "Try: ") {
			t.Error(err)
		}
		list := told.of(inbox.EventFailed)
		if len(list) != 1 || !errors.Is(list[0].Err, errRefused) || list[0].Attempt != 0 || list[0].Message.ID != key+"-101" {
			t.Errorf("%s: told %+v", key, told.list)
		}
	}
	if n := g.letters(t); n != 0 {
		t.Errorf("%d letters", n)
	}
}
