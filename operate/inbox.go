package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/store/sqlplane"
)

// Inboxes are the inboxes of all consumers of a database.
type Inboxes struct {
	db       sqlplane.Database
	consumer func(name string) (order, error)
}

// order has the methods of an inbox, on any store, that an operator needs.
type order interface {
	Gaps(ctx context.Context) ([]inbox.Gap, error)
	Skip(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
	StartAt(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
	Renumber(ctx context.Context, source string, after int64, who, reason string) (int, error)
	Place(ctx context.Context, source, topic, key string, seq int64) (inbox.Place, error)
}

// Gap is a key of a consumer that waits for a message.
type Gap struct {
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key"`
	Seq      int64     `json:"seq"`    // of the missing message
	Parked   int64     `json:"parked"` // number of waiting messages
	Since    time.Time `json:"since"`
	Dead     bool      `json:"dead"` // the message is a dead letter

	Failing
}

// Failing is a message that has come and whose attempts fail. The zero value means that no attempt of it is known.
type Failing struct {
	EventID  string    `json:"event_id,omitempty"`
	Attempts int64     `json:"failed_attempts,omitempty"`
	LastAt   time.Time `json:"failed_at,omitzero"`
	Error    string    `json:"error,omitempty"` // of the last attempt
}

func failingOf(f inbox.Failing) Failing {
	return Failing{f.EventID, f.Attempts, utc(f.LastAt), f.Error}
}

// Failure says how often the message has failed, and why, for a sentence.
func (g Gap) Failure() string { return inbox.Failing(g.Failing).String() }

// What says in a word what the message is that a key waits for.
func (g Gap) What() string {
	switch {
	case g.Dead:
		return "a dead letter"
	case g.Attempts > 0:
		return "failing"
	}
	return "missing"
}

// InboxChange is the change that Skip or StartAt makes to a key.
type InboxChange struct {
	InboxMessage

	Next    int64 `json:"next"`    // the number that the key waits for, before the change
	Parked  int64 `json:"parked"`  // before the change
	Dropped int64 `json:"dropped"` // parked messages that the change drops
	Dead    bool  `json:"dead"`    // Next is a dead letter, before the change
	Changed bool  `json:"changed"` // false for a preview
}

// GapFilter says which keys to list. The zero value means all waiting keys.
type GapFilter struct {
	Window

	Consumer string // default: all

	// Most bounds the keys of a consumer that are read: after them the list ends, with Page.Cut. It needs Consumer. Default: the 1000 keys that have
	// waited the longest, for which all waiting keys are read.
	Most int
}

// InboxSummary is the state of an inbox. Of its keys with parked messages only the first ones are read.
type InboxSummary struct {
	Consumer string    `json:"consumer"`
	Topics   []string  `json:"topics"` // of the waiting keys
	Keys     int       `json:"keys"`   // keys that wait for a message
	Dead     int       `json:"dead"`   // keys that wait for a dead letter
	Parked   int64     `json:"parked"` // messages that wait in these keys
	Since    time.Time `json:"since,omitzero"`
	More     bool      `json:"more,omitempty"` // all numbers may be greater
}

// ParkedMessage is a message that waits for an earlier message of its key.
type ParkedMessage struct {
	Seq      int64     `json:"seq"`
	EventID  string    `json:"event_id"`
	Type     string    `json:"type"`
	ParkedAt time.Time `json:"parked_at"`
	NextAt   time.Time `json:"next_at,omitzero"` // of its next attempt
}

// InboxMessage names a message of a consumer by its position in its key.
type InboxMessage struct {
	Consumer string `json:"consumer"`
	Source   string `json:"source"`
	Topic    string `json:"topic"`
	Key      string `json:"key"`
	Seq      int64  `json:"seq"`
}

// List returns the keys that wait for a message, the longest wait first: at most 1000 keys of each of at most 10,000 consumers. Each page reads the
// whole list.
func (i *Inboxes) List(ctx context.Context, f GapFilter) (p Page[Gap], err error) {
	skip := 0
	if f.After != "" {
		if skip, err = strconv.Atoi(f.After); err != nil || skip < 0 {
			return p, errCursor
		}
	}
	if f.Consumer != "" && f.Most > 0 {
		list, more, err := i.gaps(ctx, f.Consumer, f.Most)
		p = pageOf(list[min(skip, len(list)):], f.Window, func(Gap) string { return strconv.Itoa(skip + f.limit()) })
		p.Cut = more
		return p, err
	}
	consumers := []string{f.Consumer}
	if f.Consumer == "" {
		if consumers, err = i.Consumers(ctx); err != nil {
			return p, err
		}
	}
	var list []Gap
	for _, name := range consumers {
		in, err := i.consumer(name)
		if err != nil {
			return p, err
		}
		gaps, err := in.Gaps(ctx)
		if err != nil {
			return p, err //nolint:wrapcheck // it is of package inbox
		}
		for _, g := range gaps {
			list = append(list, gapOf(name, g))
		}
	}
	slices.SortFunc(list, func(a, b Gap) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
	})
	list = list[min(skip, len(list)):]
	return pageOf(list, f.Window, func(Gap) string { return strconv.Itoa(skip + f.limit()) }), nil
}

func gapOf(consumer string, g inbox.Gap) Gap {
	return Gap{consumer, g.Source, g.Topic, g.Key, g.Seq, g.Parked, utc(g.Since), g.Dead, failingOf(g.Failing)}
}

// gaps reads at most most waiting keys of a consumer.
func (i *Inboxes) gaps(ctx context.Context, consumer string, most int) (list []Gap, more bool, err error) {
	found, more, err := inbox.GapsUpTo(ctx, i.db, consumer, most)
	return convert(found, func(g inbox.Gap) Gap { return gapOf(consumer, g) }), more, err //nolint:wrapcheck // it is of package inbox
}

// Summaries returns the states of the inboxes, by the names of their consumers. For each it reads at most most keys.
func (i *Inboxes) Summaries(ctx context.Context, w Window, most int) (p Page[InboxSummary], err error) {
	names, err := inbox.Consumers(ctx, i.db, w.After, w.limit()+1)
	if err != nil {
		return p, err //nolint:wrapcheck // likewise
	}
	of := pageOf(names, w, func(name string) string { return name })
	p.Next, p.Items = of.Next, []InboxSummary{}
	for _, name := range of.Items {
		s := InboxSummary{Consumer: name, Topics: []string{}}
		var list []Gap
		if list, s.More, err = i.gaps(ctx, name, most); err != nil {
			return p, err
		}
		for _, g := range list {
			s.Keys++
			s.Parked += g.Parked
			if g.Dead {
				s.Dead++
			}
			if !slices.Contains(s.Topics, g.Topic) {
				s.Topics = append(s.Topics, g.Topic)
			}
		}
		if len(list) > 0 {
			s.Since = list[0].Since // the longest wait comes first
		}
		slices.Sort(s.Topics)
		p.Items = append(p.Items, s)
	}
	return p, nil
}

// Parked returns the messages of a key that wait for an earlier one, in their order. It does not read m.Seq.
func (i *Inboxes) Parked(ctx context.Context, m InboxMessage, w Window) (p Page[ParkedMessage], err error) {
	after := int64(0)
	if w.After != "" {
		if after, err = strconv.ParseInt(w.After, 10, 64); err != nil {
			return p, errCursor
		}
	}
	list, err := inbox.ParkedOf(ctx, i.db, m.Consumer, m.Source, m.Topic, m.Key, after, w.limit()+1)
	of := func(p inbox.ParkedMessage) ParkedMessage {
		return ParkedMessage{p.Seq, p.ID, p.Type, utc(p.ParkedAt), utc(p.NextAt)}
	}
	return pageOf(convert(list, of), w, func(p ParkedMessage) string { return strconv.FormatInt(p.Seq, 10) }), err //nolint:wrapcheck // likewise
}

// Consumers returns the consumers of inboxes, at most 10,000.
func (i *Inboxes) Consumers(ctx context.Context) ([]string, error) {
	const most = 10_000
	return inbox.Consumers(ctx, i.db, "", most) //nolint:wrapcheck // it is of package inbox
}

// Place returns the position of a key, and its parked messages.
func (i *Inboxes) Place(ctx context.Context, m InboxMessage) (inbox.Place, error) {
	in, err := i.consumer(m.Consumer)
	if err != nil {
		return inbox.Place{}, err
	}
	return in.Place(ctx, m.Source, m.Topic, m.Key, m.Seq) //nolint:wrapcheck // likewise
}

// Skip gives up the message that a key waits for. It refuses to if the message has come and fails: see [inbox.Inbox.Skip].
func (i *Inboxes) Skip(ctx context.Context, by By, m InboxMessage) error {
	in, err := i.signed(by, m)
	if err != nil {
		return err
	}
	return in.Skip(ctx, m.Source, m.Topic, m.Key, m.Seq, by.Who, by.Reason) //nolint:wrapcheck // likewise
}

// StartAt makes a key begin at a message.
func (i *Inboxes) StartAt(ctx context.Context, by By, m InboxMessage) error {
	in, err := i.signed(by, m)
	if err != nil {
		return err
	}
	return in.StartAt(ctx, m.Source, m.Topic, m.Key, m.Seq, by.Who, by.Reason) //nolint:wrapcheck // likewise
}

// Renumber makes the inbox of a consumer follow a sender that goes on after a number, and returns how many keys have waited for that. See
// [inbox.Inbox.Renumber].
func (i *Inboxes) Renumber(ctx context.Context, by By, consumer, source string, after int64) (keys int, err error) {
	in, err := i.signed(by, InboxMessage{Consumer: consumer})
	if err != nil {
		return 0, err
	}
	return in.Renumber(ctx, source, after, by.Who, by.Reason) //nolint:wrapcheck // likewise
}

func (i *Inboxes) signed(by By, m InboxMessage) (order, error) {
	if err := by.check(); err != nil {
		return nil, err
	}
	return i.consumer(m.Consumer)
}

// checkConsumer returns the error with which inbox.New would panic.
func checkConsumer(name string) error {
	switch {
	case name == "":
		return errors.New("operate: the name of the consumer is empty. Try: a name that Inboxes.Consumers returns")
	case len(name) > inbox.MaxConsumer || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return fmt.Errorf("operate: the name of the consumer must be printable text of at most %d bytes. Try: a name that Inboxes.Consumers returns", inbox.MaxConsumer)
	}
	return nil
}
