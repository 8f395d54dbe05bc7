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

// Inboxes are those of all consumers of a database.
type Inboxes struct {
	db       sqlplane.Database
	consumer func(name string) (order, error)
}

// order is what an operator needs of an inbox on any store.
type order interface {
	Gaps(ctx context.Context) ([]inbox.Gap, error)
	Skip(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
	StartAt(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
	Place(ctx context.Context, source, topic, key string, seq int64) (inbox.Place, error)
}

// Gap is a key of a consumer that waits for a message.
type Gap struct {
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key"`
	Seq      int64     `json:"seq"`    // of the message that the others wait for
	Parked   int64     `json:"parked"` // how many wait
	Since    time.Time `json:"since"`
	Dead     bool      `json:"dead"` // the message is a dead letter
}

// InboxChange is what Skip or StartAt changes at a key.
type InboxChange struct {
	InboxMessage

	Next    int64 `json:"next"`    // the number of the message that the key waits for, before the change
	Parked  int64 `json:"parked"`  // before the change
	Dropped int64 `json:"dropped"` // of the parked messages
	Dead    bool  `json:"dead"`    // Next is a dead letter, before the change
	Changed bool  `json:"changed"` // false: a preview
}

// GapFilter says which keys to list. The zero value means all that wait.
type GapFilter struct {
	Window

	Consumer string // default: all
}

// InboxMessage names a message of a consumer by its place in its key.
type InboxMessage struct {
	Consumer string `json:"consumer"`
	Source   string `json:"source"`
	Topic    string `json:"topic"`
	Key      string `json:"key"`
	Seq      int64  `json:"seq"`
}

// List returns the keys that wait for a message, the longest wait first: at most 1000 keys of each of at most 10,000 consumers. A
// page is cut from a list that is read as a whole.
func (i *Inboxes) List(ctx context.Context, f GapFilter) (p Page[Gap], err error) {
	skip := 0
	if f.After != "" {
		if skip, err = strconv.Atoi(f.After); err != nil || skip < 0 {
			return p, errCursor
		}
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
			list = append(list, Gap{name, g.Source, g.Topic, g.Key, g.Seq, g.Parked, utc(g.Since), g.Dead})
		}
	}
	slices.SortFunc(list, func(a, b Gap) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
	})
	list = list[min(skip, len(list)):]
	return pageOf(list, f.Window, func(Gap) string { return strconv.Itoa(skip + f.limit()) }), nil
}

// Consumers returns the consumers that have keys with an order, at most 10,000.
func (i *Inboxes) Consumers(ctx context.Context) ([]string, error) {
	const most = 10_000
	return inbox.Consumers(ctx, i.db, most) //nolint:wrapcheck // it is of package inbox
}

// Place returns how far a key is, and what is parked of it.
func (i *Inboxes) Place(ctx context.Context, m InboxMessage) (inbox.Place, error) {
	in, err := i.consumer(m.Consumer)
	if err != nil {
		return inbox.Place{}, err
	}
	return in.Place(ctx, m.Source, m.Topic, m.Key, m.Seq) //nolint:wrapcheck // likewise
}

// Skip gives up the message that a key waits for.
func (i *Inboxes) Skip(ctx context.Context, by By, m InboxMessage) error {
	in, err := i.signed(by, m)
	if err != nil {
		return err
	}
	return in.Skip(ctx, m.Source, m.Topic, m.Key, m.Seq, by.Who, by.Reason) //nolint:wrapcheck // likewise
}

// StartAt has a key begin at a message.
func (i *Inboxes) StartAt(ctx context.Context, by By, m InboxMessage) error {
	in, err := i.signed(by, m)
	if err != nil {
		return err
	}
	return in.StartAt(ctx, m.Source, m.Topic, m.Key, m.Seq, by.Who, by.Reason) //nolint:wrapcheck // likewise
}

func (i *Inboxes) signed(by By, m InboxMessage) (order, error) {
	if err := by.check(); err != nil {
		return nil, err
	}
	return i.consumer(m.Consumer)
}

// checkConsumer is what inbox.New would panic for.
func checkConsumer(name string) error {
	switch {
	case name == "":
		return errors.New("operate: the consumer is empty. Try: one of Inboxes.Consumers")
	case len(name) > inbox.MaxConsumer || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return fmt.Errorf("operate: a consumer is printable text of at most %d bytes. Try: one of Inboxes.Consumers", inbox.MaxConsumer)
	}
	return nil
}
