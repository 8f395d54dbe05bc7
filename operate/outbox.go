package operate

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/oncelib/once/outbox"
)

// Outbox has the waiting messages of a database.
type Outbox struct {
	now func(context.Context) (time.Time, error)
	box readBox
	by  func(By) signedBox
}

// readBox has the reading methods of an outbox, on any store.
type readBox interface { //nolint:interfacebloat // what the outbox has, and a test has less of
	List(ctx context.Context, f outbox.Filter) (list []outbox.Entry, next int64, err error)
	Show(ctx context.Context, id string) (outbox.Entry, error)
	ByID(ctx context.Context, ids ...string) ([]outbox.Entry, error)
	Paused(ctx context.Context) ([]outbox.Pause, error)
	Backlog(ctx context.Context) (outbox.Backlog, error)
	BacklogUpTo(ctx context.Context, most int) (outbox.Backlog, error)
	Topics(ctx context.Context) ([]outbox.Topic, error)
	TopicsUpTo(ctx context.Context, after string, most int) (list []outbox.Topic, next string, err error)
	Blocked(ctx context.Context, topic, after string, limit, most int) (list []outbox.Entry, next string, err error)
	Known(ctx context.Context, topic, key string) (bool, error)
	Started(ctx context.Context) (int64, error)
}

// signedBox is an outbox whose changes are audited.
type signedBox interface {
	Pause(ctx context.Context, topic, key, reason string) error
	Resume(ctx context.Context, topic, key string) (outbox.Resumed, error)
	Skip(ctx context.Context, id, reason string) error
	Resend(ctx context.Context, id, reason string) error
	Forget(ctx context.Context, topic, key, reason string) (outbox.Forgotten, error)
	Renumber(ctx context.Context, reason string) (int64, error)
}

// MessageFilter says which messages to list. The zero value means all that are not delivered.
type MessageFilter struct {
	Window

	State outbox.State // default: all but outbox.StateDelivered
	Topic string       // default: all
	Key   string       // needs Topic

	// Most bounds the rows that are read to find blocked messages. They come by topic and key then, at most 25 of each key: after Most rows the page
	// ends, with Page.Cut. 0 means no limit. Other states ignore it.
	Most int
}

// List returns messages, the oldest first, without their payloads and headers.
func (o *Outbox) List(ctx context.Context, f MessageFilter) (p Page[Message], err error) {
	if f.State == outbox.StateBlocked && f.Most > 0 && f.Key == "" {
		list, next, err := o.box.Blocked(ctx, f.Topic, f.After, f.limit(), f.Most)
		return Page[Message]{Items: convert(list, messageOf), Next: next, Cut: next != "" && len(list) < f.limit()}, err //nolint:wrapcheck // it is of package outbox
	}
	asked := outbox.Filter{State: f.State, Topic: f.Topic, Key: f.Key, Limit: f.limit()}
	if f.After != "" {
		if asked.After, err = strconv.ParseInt(f.After, 10, 64); err != nil {
			return p, errCursor
		}
	}
	list, next, err := o.box.List(ctx, asked)
	if err != nil {
		return p, err //nolint:wrapcheck // it is of package outbox
	}
	p.Items = convert(list, messageOf)
	if next != 0 {
		p.Next = strconv.FormatInt(next, 10)
	}
	return p, nil
}

// Show returns the message with an ID. If its payload and headers cannot be decrypted, Show returns an error together with the message without them.
func (o *Outbox) Show(ctx context.Context, id string) (Message, error) {
	e, err := o.box.Show(ctx, id)
	return messageOf(e), err //nolint:wrapcheck // it is of package outbox
}

// Pauses returns the paused topics and keys.
func (o *Outbox) Pauses(ctx context.Context) ([]Pause, error) {
	list, err := o.box.Paused(ctx)
	return convert(list, func(p outbox.Pause) Pause { return Pause{p.Topic, p.Key, p.Reason, utc(p.PausedAt)} }), err //nolint:wrapcheck // likewise
}

// Backlog returns the numbers and ages of the waiting messages.
func (o *Outbox) Backlog(ctx context.Context) (outbox.Backlog, error) {
	return o.box.Backlog(ctx) //nolint:wrapcheck // likewise
}

// Topics returns the state of each topic: its oldest message, and why its messages wait.
func (o *Outbox) Topics(ctx context.Context) ([]outbox.Topic, error) {
	return o.box.Topics(ctx) //nolint:wrapcheck // likewise
}

// TopicsUpTo is a page of Topics that reads about most rows: the topics after a name. Page.Next is its last topic. See [outbox.Box.TopicsUpTo].
func (o *Outbox) TopicsUpTo(ctx context.Context, after string, most int) (p Page[outbox.Topic], err error) {
	p.Items, p.Next, err = o.box.TopicsUpTo(ctx, after, most)
	return p, err //nolint:wrapcheck // likewise
}

// Waits returns the reasons for which messages of a topic wait, except pauses, which [Outbox.Pauses] returns. Topic "" means all topics.
func (o *Outbox) Waits(ctx context.Context, topic string) ([]TopicWait, error) {
	topics, err := o.Topics(ctx)
	list := []TopicWait{}
	for _, t := range topics {
		if topic == "" || t.Name == topic {
			list = append(list, WaitsOf(t)...)
		}
	}
	return list, err
}

// WaitsOf returns the reasons for which messages of a topic wait, except pauses.
func WaitsOf(t outbox.Topic) (list []TopicWait) {
	for _, w := range t.Waits {
		if w.For != outbox.WaitPaused {
			list = append(list, TopicWait{t.Name, w.Key, w.For, utc(w.Since), utc(t.Oldest), w.Reason, w.Node, w.Messages, w.More, w.Stopped, t.Now})
		}
	}
	return list
}

// Known reports whether a message of a topic, or of one of its keys, was ever added. If not, a pause of it may have a wrong name.
func (o *Outbox) Known(ctx context.Context, topic, key string) (bool, error) {
	return o.box.Known(ctx, topic, key) //nolint:wrapcheck // likewise
}

// Pause holds back the messages of a topic, or of one of its keys.
func (o *Outbox) Pause(ctx context.Context, by By, topic, key string) error {
	if err := by.check(); err != nil {
		return err
	}
	return o.by(by).Pause(ctx, topic, key, by.String()) //nolint:wrapcheck // likewise
}

// Resume ends a pause, and makes failed messages of the topic or the key due again.
func (o *Outbox) Resume(ctx context.Context, by By, topic, key string) (outbox.Resumed, error) {
	if err := by.check(); err != nil {
		return outbox.Resumed{}, err
	}
	return o.by(by).Resume(ctx, topic, key) //nolint:wrapcheck // likewise
}

// Skip gives a message up: a marker takes its place.
func (o *Outbox) Skip(ctx context.Context, by By, id string) error {
	if err := by.check(); err != nil {
		return err
	}
	return o.by(by).Skip(ctx, id, by.String()) //nolint:wrapcheck // likewise
}

// Resend delivers a delivered message again, if it is kept. See [outbox.Box.Resend].
func (o *Outbox) Resend(ctx context.Context, by By, id string) error {
	if err := by.check(); err != nil {
		return err
	}
	return o.by(by).Resend(ctx, id, by.String()) //nolint:wrapcheck // likewise
}

// Since chooses the kept messages that were delivered at a moment or later, of one topic, or of all topics if that is "".
type Since struct {
	At    time.Time
	Topic string
}

// ResendSince delivers messages again that were delivered at a moment or later, and are kept: for consumers that were restored from a backup. It
// returns how many. Erased messages are left out. To call it again does no harm, except that it makes duplicates.
func (o *Outbox) ResendSince(ctx context.Context, by By, s Since) (n int, err error) {
	err = o.since(ctx, s, func(m Message) error {
		err := o.Resend(ctx, by, m.ID)
		switch {
		case errors.Is(err, outbox.ErrErased), errors.Is(err, outbox.ErrNotDelivered), errors.Is(err, outbox.ErrNotFound): // another call or a sweep was faster
			return nil
		case err == nil:
			n++
		}
		return err
	})
	return n, err
}

// CountSince returns how many messages ResendSince would deliver again.
func (o *Outbox) CountSince(ctx context.Context, s Since) (n int, err error) {
	err = o.since(ctx, s, func(Message) error { n++; return nil })
	return n, err
}

// since visits the messages of s, oldest first. A message that is delivered again meanwhile gets a later time, and is not visited twice.
func (o *Outbox) since(ctx context.Context, s Since, visit func(Message) error) error {
	const atOnce = 500
	// By the clock of the database: a message that this call has delivered again is later, and not visited twice.
	end, err := o.now(ctx)
	if err != nil {
		return err
	}
	f := MessageFilter{State: outbox.StateDelivered, Topic: s.Topic, Window: Window{Limit: atOnce}}
	for {
		p, err := o.List(ctx, f)
		if err != nil {
			return err
		}
		for _, m := range p.Items {
			if m.SentAt.Before(s.At) || m.SentAt.After(end) {
				continue
			}
			if err := visit(m); err != nil {
				return err
			}
		}
		if f.After = p.Next; f.After == "" {
			return nil
		}
	}
}

// Forget erases the payloads and headers of the delivered messages of a key.
func (o *Outbox) Forget(ctx context.Context, by By, topic, key string) (outbox.Forgotten, error) {
	if err := by.check(); err != nil {
		return outbox.Forgotten{}, err
	}
	return o.by(by).Forget(ctx, topic, key, by.Reason) //nolint:wrapcheck // likewise
}

// Renumber moves the numbers of all keys forward, after the database was restored from a backup. See [outbox.Box.Renumber].
func (o *Outbox) Renumber(ctx context.Context, by By) (after int64, err error) {
	if err := by.check(); err != nil {
		return 0, err
	}
	return o.by(by).Renumber(ctx, by.String()) //nolint:wrapcheck // likewise
}

// Started returns the number that the last Renumber has returned; 0 if it was never called.
func (o *Outbox) Started(ctx context.Context) (after int64, err error) {
	return o.box.Started(ctx) //nolint:wrapcheck // likewise
}

// String is a reason with the name of its author, for lists that have one column for both.
func (by By) String() string { return by.Who + ": " + by.Reason }
