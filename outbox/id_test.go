package outbox_test

import (
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// TestIDForNeverChanges: the ID is stored and compared by other regions and later versions, so it never changes. Each operation and each of its messages has
// one of its own.
func TestIDForNeverChanges(t *testing.T) {
	op := once.Operation{Scope: "acme POST /orders", Key: "k1"}
	if got, want := outbox.IDFor(op, 0), "f1b13373-3c45-8e7b-a025-65fc7fa4d223"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	op.Name, op.Attempt.Number = "POST /orders", 7 // which are not what it is
	if outbox.IDFor(op, 0) != outbox.IDFor(once.Operation{Scope: op.Scope, Key: op.Key}, 0) {
		t.Error("an attempt has another ID")
	}
	seen := map[string]bool{}
	for _, op := range []once.Operation{{Scope: "a", Key: "b:c"}, {Scope: "a:b", Key: "c"}, {Scope: "a", Key: "b"}, {Scope: "a", Key: "b:c:1"}, op} {
		for n := range 3 {
			id := outbox.IDFor(op, n)
			if seen[id] {
				t.Errorf("%v %d has the ID of another message", op, n)
			}
			seen[id] = true
			if err := message.CheckText("ID", id, message.MaxText); err != nil {
				t.Error(err)
			}
		}
	}
}
