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

// Inboxes gives access to the inboxes of all consumers in a database.
type Inboxes struct {
	db       sqlplane.Database
	consumer func(name string) (order, error)
}

// order has the methods of an inbox that an operator needs, for any type of transaction.
type order interface {
	Gaps(ctx context.Context) ([]inbox.Gap, error)
	Skip(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
	StartAt(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
	Renumber(ctx context.Context, source string, after int64, who, reason string) (int, error)
	Place(ctx context.Context, source, topic, key string, seq int64) (inbox.Place, error)
}

// Gap is an ordering key for which a consumer has not applied the next message: this message is missing, its attempts fail, or it is a dead letter.
// The later messages of this ordering key wait for the missing message.
type Gap struct {
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key"`
	Seq      int64     `json:"seq"`    // the number of the missing message
	Parked   int64     `json:"parked"` // the number of messages that wait
	Since    time.Time `json:"since"`
	Dead     bool      `json:"dead"` // true if the missing message is a dead letter

	Failing
}

// Failing describes the failed attempts to apply a received message. The zero value of Failing means that no failed attempt is known.
type Failing struct {
	EventID  string    `json:"event_id,omitempty"`
	Attempts int64     `json:"failed_attempts,omitempty"`
	LastAt   time.Time `json:"failed_at,omitzero"`
	Error    string    `json:"error,omitempty"` // why the last attempt has failed
}

func failingOf(f inbox.Failing) Failing {
	return Failing{f.EventID, f.Attempts, utc(f.LastAt), f.Error}
}

// Failure returns a text that says how many attempts to apply the missing message have failed, and why.
func (g Gap) Failure() string { return inbox.Failing(g.Failing).String() }

// What returns the state of the missing message in words: "missing", "failing" or "a dead letter".
func (g Gap) What() string {
	switch {
	case g.Dead:
		return "a dead letter"
	case g.Attempts > 0:
		return "failing"
	}
	return "missing"
}

// InboxChange describes the change that [Inboxes.Skip] or [Inboxes.StartAt] makes to an ordering key.
type InboxChange struct {
	InboxMessage

	Next    int64 `json:"next"`    // the number of the message that the key waits for, before the change
	Parked  int64 `json:"parked"`  // the number of parked messages before the change
	Dropped int64 `json:"dropped"` // the number of parked messages that the change drops
	Dead    bool  `json:"dead"`    // the message with the number Next is a dead letter, before the change
	Changed bool  `json:"changed"` // true if the change was made; false in a preview
}

// GapFilter chooses ordering keys that wait for a missing message. The zero value of GapFilter chooses all ordering keys that wait for a missing
// message.
type GapFilter struct {
	Window

	Consumer string // default: all consumers

	// Most limits the number of ordering keys that are read from the database; if the limit has ended the list, Page.Cut is true. If Consumer is "",
	// Most has no effect. Default: 0, no limit: all waiting keys are read, and the list has the 1000 keys that have waited the longest.
	Most int
}

// InboxSummary is the state of an inbox. Only a limited number of ordering keys of the inbox is read; see the field More.
type InboxSummary struct {
	Consumer string    `json:"consumer"`
	Topics   []string  `json:"topics"` // the topics of the waiting keys
	Keys     int       `json:"keys"`   // the number of keys that wait for a message
	Dead     int       `json:"dead"`   // the number of keys that wait for a dead letter
	Parked   int64     `json:"parked"` // the number of messages that wait in these keys
	Since    time.Time `json:"since,omitzero"`
	More     bool      `json:"more,omitempty"` // true if not all keys were read, so that the real values of Keys, Dead and Parked may be greater
}

// ParkedMessage is a received message that waits for an earlier message of its ordering key.
type ParkedMessage struct {
	Seq      int64     `json:"seq"`
	EventID  string    `json:"event_id"`
	Type     string    `json:"type"`
	ParkedAt time.Time `json:"parked_at"`
	NextAt   time.Time `json:"next_at,omitzero"` // the time of its next attempt
}

// InboxMessage names a message of a consumer by its source, its topic, its ordering key, and its number among the messages with this ordering key.
type InboxMessage struct {
	Consumer string `json:"consumer"`
	Source   string `json:"source"`
	Topic    string `json:"topic"`
	Key      string `json:"key"`
	Seq      int64  `json:"seq"`
}

// List returns the ordering keys that wait for a missing message; the key that has waited the longest is first. List returns at most 1000 keys of
// each consumer, and reads at most 10,000 consumers. For each page, List reads the whole list from the database.
func (i *Inboxes) List(ctx context.Context, f GapFilter) (p Page[Gap], err error) {
	// The whole list is read, so its cursor is a position in the list.
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
	// All columns of the key, because each page needs the same order.
	slices.SortFunc(list, func(a, b Gap) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
	})
	list = list[min(skip, len(list)):]
	return pageOf(list, f.Window, func(Gap) string { return strconv.Itoa(skip + f.limit()) }), nil
}

func gapOf(consumer string, g inbox.Gap) Gap {
	return Gap{consumer, g.Source, g.Topic, g.Key, g.Seq, g.Parked, utc(g.Since), g.Dead, failingOf(g.Failing)}
}

// gaps reads the waiting keys of a consumer, at most most of them.
func (i *Inboxes) gaps(ctx context.Context, consumer string, most int) (list []Gap, more bool, err error) {
	found, more, err := inbox.GapsUpTo(ctx, i.db, consumer, most)
	return convert(found, func(g inbox.Gap) Gap { return gapOf(consumer, g) }), more, err //nolint:wrapcheck // it is of package inbox
}

// Summaries returns the states of the inboxes, sorted by the names of their consumers. The parameter most limits the number of keys that are read
// from each inbox.
func (i *Inboxes) Summaries(ctx context.Context, w Window, most int) (p Page[InboxSummary], err error) {
	// One name more than the page has shows whether a next page exists.
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

// Parked returns the parked messages of the ordering key that m names, in the order of their numbers. A parked message waits for an earlier message
// of its ordering key. Parked ignores m.Seq.
func (i *Inboxes) Parked(ctx context.Context, m InboxMessage, w Window) (p Page[ParkedMessage], err error) {
	after := int64(0)
	if w.After != "" {
		if after, err = strconv.ParseInt(w.After, 10, 64); err != nil {
			return p, errCursor
		}
	}
	// One message more than the page has shows whether a next page exists.
	list, err := inbox.ParkedOf(ctx, i.db, m.Consumer, m.Source, m.Topic, m.Key, after, w.limit()+1)
	of := func(p inbox.ParkedMessage) ParkedMessage {
		return ParkedMessage{p.Seq, p.ID, p.Type, utc(p.ParkedAt), utc(p.NextAt)}
	}
	return pageOf(convert(list, of), w, func(p ParkedMessage) string { return strconv.FormatInt(p.Seq, 10) }), err //nolint:wrapcheck // likewise
}

// Consumers returns the names of the consumers that have an inbox, at most 10,000 names.
func (i *Inboxes) Consumers(ctx context.Context) ([]string, error) {
	const most = 10_000
	return inbox.Consumers(ctx, i.db, "", most) //nolint:wrapcheck // it is of package inbox
}

// Place returns the number of the last message that was applied or skipped for the ordering key that m names, and how many messages of this key are
// parked.
func (i *Inboxes) Place(ctx context.Context, m InboxMessage) (inbox.Place, error) {
	in, err := i.consumer(m.Consumer)
	if err != nil {
		return inbox.Place{}, err
	}
	return in.Place(ctx, m.Source, m.Topic, m.Key, m.Seq) //nolint:wrapcheck // likewise
}

// Skip gives up the message that an ordering key waits for, so that the later messages of this key are applied. Skip returns an error if the message
// was received and the attempts to apply it fail: see [inbox.Inbox.Skip].
func (i *Inboxes) Skip(ctx context.Context, by By, m InboxMessage) error {
	in, err := i.signed(by, m)
	if err != nil {
		return err
	}
	return in.Skip(ctx, m.Source, m.Topic, m.Key, m.Seq, by.Who, by.Reason) //nolint:wrapcheck // likewise
}

// StartAt makes an ordering key begin at the message m: the inbox does not wait for earlier messages of this key. See [inbox.Inbox.StartAt].
func (i *Inboxes) StartAt(ctx context.Context, by By, m InboxMessage) error {
	in, err := i.signed(by, m)
	if err != nil {
		return err
	}
	return in.StartAt(ctx, m.Source, m.Topic, m.Key, m.Seq, by.Who, by.Reason) //nolint:wrapcheck // likewise
}

// Renumber prepares the inbox of a consumer for a source that was restored from a backup: for every ordering key, the source continues with message
// numbers greater than the parameter after. Renumber returns how many ordering keys had waited for a call of Renumber. See [inbox.Inbox.Renumber].
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

// checkConsumer returns the error with which inbox.New would panic, because a name from a person must not end the process.
func checkConsumer(name string) error {
	switch {
	case name == "":
		return errors.New("operate: the name of the consumer is empty. Try: a name that Inboxes.Consumers returns")
	case len(name) > inbox.MaxConsumer || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return fmt.Errorf("operate: the name of the consumer must be printable text of at most %d bytes. Try: a name that Inboxes.Consumers returns", inbox.MaxConsumer)
	}
	return nil
}
