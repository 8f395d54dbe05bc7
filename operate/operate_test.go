package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

// TestByIsRequired: nothing is changed by a person without a name, or without a reason.
func TestByIsRequired(t *testing.T) {
	t.Parallel()
	changed := 0
	o := Operator{
		Keys:    &Keys{},
		Outbox:  &Outbox{by: func(By) signedBox { changed++; return noBox{} }},
		Inbox:   &Inboxes{consumer: func(string) (order, error) { changed++; return nil, fmt.Errorf("reached") }},
		Letters: &Letters{},
		Sagas:   &Sagas{keys: &Keys{}},
		Hooks:   &Webhooks{},
	}
	for says, by := range map[string]By{"By.Who": {Reason: "asked"}, "By.Reason": {Who: "ada", Reason: " "}} {
		ctx := t.Context()
		for name, change := range map[string]func() error{
			"forget":        func() error { _, err := o.Keys.Forget(ctx, by, ForgetRequest{Scope: "s", Key: "k"}); return err },
			"decide":        func() error { return o.Keys.Decide(ctx, by, store.ID{}, lease.Resolution{}) },
			"decide saga":   func() error { _, err := o.Sagas.Decide(ctx, by, saga.ID{}, saga.Decision{}); return err },
			"forget saga":   func() error { _, err := o.Sagas.Forget(ctx, by, saga.ID{Key: "k"}, false); return err },
			"resend hook":   func() error { return o.Hooks.Resend(ctx, by, "ep", "msg") },
			"recover hooks": func() error { _, err := o.Hooks.Recover(ctx, by, "ep", webhook.Period{}); return err },
			"replay hooks":  func() error { _, err := o.Hooks.Replay(ctx, by, "ep", webhook.Period{}); return err },
			"enable hooks":  func() error { return o.Hooks.Enable(ctx, by, "ep") },
			"disable hooks": func() error { return o.Hooks.Disable(ctx, by, "ep") },
			"pause":         func() error { return o.Outbox.Pause(ctx, by, "t", "") },
			"resume":        func() error { _, err := o.Outbox.Resume(ctx, by, "t", ""); return err },
			"skip":          func() error { return o.Outbox.Skip(ctx, by, "id") },
			"forget outbox": func() error { _, err := o.Outbox.Forget(ctx, by, "t", "k"); return err },
			"skip inbox":    func() error { return o.Inbox.Skip(ctx, by, InboxMessage{}) },
			"start at":      func() error { return o.Inbox.StartAt(ctx, by, InboxMessage{}) },
			"discard":       func() error { _, err := o.Letters.Discard(ctx, by, LetterFilter{}); return err },
			"cancel":        func() error { _, err := o.Letters.Cancel(ctx, by, "uid"); return err },
		} {
			if err := change(); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "Try: ") {
				t.Errorf("%s, %+v: %v", name, by, err)
			}
		}
	}
	if changed != 0 {
		t.Errorf("%d changes", changed)
	}
	if err := o.Outbox.Pause(t.Context(), By{Who: "ada", Reason: "asked"}, "t", ""); err != nil || changed != 1 {
		t.Errorf("%d changes, %v", changed, err)
	}
}

// noBox accepts everything.
type noBox struct{ signedBox }

// Pause implements signedBox.
func (noBox) Pause(_ context.Context, _, _, reason string) error {
	if reason != "ada: asked" {
		return fmt.Errorf("the reason is %q", reason)
	}
	return nil
}

// TestPagesShowEachItemOnce: a list is seen once from its beginning to its end, and the last page says that it is the last.
func TestPagesShowEachItemOnce(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		box := listBox{n}
		o := Outbox{box: box}
		for limit := 1; limit < 5; limit++ {
			var seen []int64
			f := MessageFilter{Window: Window{Limit: limit}}
			for pages := 0; ; pages++ {
				p, err := o.List(t.Context(), f)
				if err != nil || pages > n || p.Items == nil || len(p.Items) > limit {
					t.Fatalf("%d by %d: %+v, %v", n, limit, p, err)
				}
				for _, e := range p.Items {
					seen = append(seen, e.Seq)
				}
				if f.After = p.Next; f.After == "" {
					break
				}
			}
			if len(seen) != n || !slices.IsSorted(seen) {
				t.Errorf("%d by %d: %v", n, limit, seen)
			}
		}
		if _, err := o.List(t.Context(), MessageFilter{Window: Window{After: "x"}}); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Error(err)
		}
	}
}

// listBox has n messages.
type listBox struct{ n int }

// Started implements readBox.
func (listBox) Started(context.Context) (int64, error) { return 0, nil }

// List implements readBox.
func (b listBox) List(_ context.Context, f outbox.Filter) (list []outbox.Entry, next int64, err error) {
	for i := f.After + 1; i <= int64(b.n); i++ {
		if len(list) == f.Limit {
			return list, i - 1, nil
		}
		list = append(list, outbox.Entry{Message: message.Message{Seq: i}})
	}
	return list, 0, nil
}

// Show implements readBox.
func (listBox) Show(context.Context, string) (outbox.Entry, error) { return outbox.Entry{}, nil }

// ByID implements readBox.
func (listBox) ByID(context.Context, ...string) ([]outbox.Entry, error) { return nil, nil }

// Paused implements readBox.
func (listBox) Paused(context.Context) ([]outbox.Pause, error) { return nil, nil }

// Topics implements readBox.
func (listBox) Topics(context.Context) ([]outbox.Topic, error) { return nil, nil }

// TopicsUpTo implements readBox.
func (listBox) TopicsUpTo(context.Context, string, int) (list []outbox.Topic, next string, err error) {
	return nil, "", nil
}

// Blocked implements readBox.
func (listBox) Blocked(context.Context, string, string, int, int) (list []outbox.Entry, next string, err error) {
	return nil, "", nil
}

// Known implements readBox.
func (listBox) Known(context.Context, string, string) (bool, error) { return false, nil }

// Backlog implements readBox.
func (listBox) Backlog(context.Context) (outbox.Backlog, error) { return outbox.Backlog{}, nil }

// BacklogUpTo implements readBox.
func (listBox) BacklogUpTo(context.Context, int) (outbox.Backlog, error) {
	return outbox.Backlog{}, nil
}
