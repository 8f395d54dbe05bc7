package operate

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/oncelib/once/outbox"
)

// Outbox gives access to the messages in the outbox of a database.
type Outbox struct {
	now func(context.Context) (time.Time, error)
	box readBox
	by  func(By) signedBox
}

// readBox has the methods of an outbox that only read, for any type of transaction.
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

// signedBox is an outbox that writes its changes to the audit.
type signedBox interface {
	Pause(ctx context.Context, topic, key, reason string) error
	Resume(ctx context.Context, topic, key string) (outbox.Resumed, error)
	Skip(ctx context.Context, id, reason string) error
	Resend(ctx context.Context, id, reason string) error
	Forget(ctx context.Context, topic, key, reason string) (outbox.Forgotten, error)
	Renumber(ctx context.Context, reason string) (int64, error)
}

// MessageFilter chooses messages. The zero value of MessageFilter chooses all messages that are not delivered.
type MessageFilter struct {
	Window

	State outbox.State // default: all states except outbox.StateDelivered
	Topic string       // default: all topics
	Key   string       // the ordering key; requires Topic; default: all keys

	// Most limits the number of rows that are read to find blocked messages; for messages of other states Most has no effect. If Most is set, blocked
	// messages are sorted by topic and key, and at most 25 messages of each key are returned; if the limit has ended the page, Page.Cut is true. 0 means
	// no limit.
	Most int
}

// List returns the messages that match f, the oldest first, without their payloads and headers.
func (o *Outbox) List(ctx context.Context, f MessageFilter) (p Page[Message], err error) {
	// Only this method limits the rows that it reads.
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

// Show returns the message with this ID, with its payload and headers. If the payload and the headers cannot be decrypted, Show returns the message
// without payload and headers, together with an error.
func (o *Outbox) Show(ctx context.Context, id string) (Message, error) {
	e, err := o.box.Show(ctx, id)
	return messageOf(e), err //nolint:wrapcheck // it is of package outbox
}

// Pauses returns the paused topics and the paused ordering keys.
func (o *Outbox) Pauses(ctx context.Context) ([]Pause, error) {
	list, err := o.box.Paused(ctx)
	return convert(list, func(p outbox.Pause) Pause { return Pause{p.Topic, p.Key, p.Reason, utc(p.PausedAt)} }), err //nolint:wrapcheck // likewise
}

// Backlog returns how many messages wait, and how old the oldest waiting messages are.
func (o *Outbox) Backlog(ctx context.Context) (outbox.Backlog, error) {
	return o.box.Backlog(ctx) //nolint:wrapcheck // likewise
}

// Topics returns the state of each topic: how old its oldest message is, and the reasons why its messages wait.
func (o *Outbox) Topics(ctx context.Context) ([]outbox.Topic, error) {
	return o.box.Topics(ctx) //nolint:wrapcheck // likewise
}

// TopicsUpTo returns one page of the list of topics: topics whose names are greater than the parameter after. The parameter most is approximately the
// number of rows that TopicsUpTo reads. Page.Next is the name of the last topic of the page. See [outbox.Box.TopicsUpTo].
func (o *Outbox) TopicsUpTo(ctx context.Context, after string, most int) (p Page[outbox.Topic], err error) {
	p.Items, p.Next, err = o.box.TopicsUpTo(ctx, after, most)
	return p, err //nolint:wrapcheck // likewise
}

// Waits returns the reasons why messages of a topic wait. Waits does not return pauses: call [Outbox.Pauses] for the pauses. If topic is "", Waits
// returns the reasons of all topics.
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

// WaitsOf returns the reasons why messages of the topic t wait. WaitsOf does not return pauses.
func WaitsOf(t outbox.Topic) (list []TopicWait) {
	for _, w := range t.Waits {
		if w.For != outbox.WaitPaused {
			list = append(list, TopicWait{t.Name, w.Key, w.For, utc(w.Since), utc(t.Oldest), w.Reason, w.Node, w.Messages, w.More, w.Stopped, t.Now})
		}
	}
	return list
}

// Known reports whether a message of this topic and key was ever added to the outbox; key "" means any key. Call Known before Pause: if Known returns
// false, topic or key may be misspelled.
func (o *Outbox) Known(ctx context.Context, topic, key string) (bool, error) {
	return o.box.Known(ctx, topic, key) //nolint:wrapcheck // likewise
}

// Pause stops the delivery of the messages of a topic, or of one ordering key of the topic. Key "" means the whole topic.
func (o *Outbox) Pause(ctx context.Context, by By, topic, key string) error {
	if err := by.check(); err != nil {
		return err
	}
	return o.by(by).Pause(ctx, topic, key, by.String()) //nolint:wrapcheck // likewise
}

// Resume ends the pause of a topic or an ordering key, and makes its failed messages due again at once.
func (o *Outbox) Resume(ctx context.Context, by By, topic, key string) (outbox.Resumed, error) {
	if err := by.check(); err != nil {
		return outbox.Resumed{}, err
	}
	return o.by(by).Resume(ctx, topic, key) //nolint:wrapcheck // likewise
}

// Skip gives up a message that was not delivered, so that the later messages of its key are delivered. A relay delivers a marker (a message with
// the same number and without payload) in place of the skipped message.
func (o *Outbox) Skip(ctx context.Context, by By, id string) error {
	if err := by.check(); err != nil {
		return err
	}
	return o.by(by).Skip(ctx, id, by.String()) //nolint:wrapcheck // likewise
}

// Resend makes a delivered message due again, so that a relay delivers it again. Resend fails if the outbox no longer stores the message. See
// [outbox.Box.Resend].
func (o *Outbox) Resend(ctx context.Context, by By, id string) error {
	if err := by.check(); err != nil {
		return err
	}
	return o.by(by).Resend(ctx, id, by.String()) //nolint:wrapcheck // likewise
}

// Since chooses the stored messages of Topic that were delivered at the time At or later. Topic "" means all topics.
type Since struct {
	At    time.Time
	Topic string
}

// ResendSince makes the messages that s chooses due again, so that a relay delivers them again. ResendSince returns the number of messages that are
// due again. Use ResendSince for consumers that were restored from a backup. Messages whose payload was erased are not sent again. ResendSince may be
// called again, for example after an error; consumers then receive duplicates.
func (o *Outbox) ResendSince(ctx context.Context, by By, s Since) (n int, err error) {
	err = o.since(ctx, s, func(m Message) error {
		err := o.Resend(ctx, by, m.ID)
		switch {
		case errors.Is(err, outbox.ErrErased), errors.Is(err, outbox.ErrNotDelivered), errors.Is(err, outbox.ErrNotFound): // another call or a sweep was faster, so this message needs nothing
			return nil
		case err == nil:
			n++
		}
		return err
	})
	return n, err
}

// CountSince returns the number of messages that ResendSince would make due again.
func (o *Outbox) CountSince(ctx context.Context, s Since) (n int, err error) {
	err = o.since(ctx, s, func(Message) error { n++; return nil })
	return n, err
}

// since visits the messages that s chooses, the oldest first.
func (o *Outbox) since(ctx context.Context, s Since, visit func(Message) error) error {
	const atOnce = 500
	// The end is a time of the database's clock. A message that is delivered again during this call gets a later time, so it is not visited twice.
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

// Forget erases the payloads and headers of the delivered messages of an ordering key.
func (o *Outbox) Forget(ctx context.Context, by By, topic, key string) (outbox.Forgotten, error) {
	if err := by.check(); err != nil {
		return outbox.Forgotten{}, err
	}
	return o.by(by).Forget(ctx, topic, key, by.Reason) //nolint:wrapcheck // likewise
}

// Renumber makes the message numbers of all ordering keys continue after a high number, so that no message number is used twice after a restore of
// the database from a backup. Renumber returns the high number. See [outbox.Box.Renumber].
func (o *Outbox) Renumber(ctx context.Context, by By) (after int64, err error) {
	if err := by.check(); err != nil {
		return 0, err
	}
	return o.by(by).Renumber(ctx, by.String()) //nolint:wrapcheck // likewise
}

// Started returns the number that the last call of Renumber has returned, or 0 if Renumber was never called.
func (o *Outbox) Started(ctx context.Context) (after int64, err error) {
	return o.box.Started(ctx) //nolint:wrapcheck // likewise
}

// String returns "who: reason", for tables that have one column for the name and the reason together.
func (by By) String() string { return by.Who + ": " + by.Reason }
