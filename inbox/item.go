package inbox

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/message"
)

// item is a message while the inbox handles it.
type item struct {
	m        message.Message
	hash     []byte // of the payload; empty for a marker
	envelope []byte // of the topic, key and type; empty for a marker

	ordered bool  // the position of the key shows whether the message was applied, not the ID of the message
	twin    *item // an earlier message of the same batch with the same ID, whose outcome this item gets
	// replaces is the UID of a dead letter that cannot be applied and whose message this item is: see replace.go.
	replaces string
	// from is the state of the message before the call.
	from State
	wait time.Duration // how long its transaction took to begin

	// These fields are the result of the last pass. They count only if the pass has committed.
	outcome Outcome
	err     error  // the error of the handler, or the reason why the message was not applied
	refusal error  // the reason why the message becomes a dead letter without an attempt
	class   string // the class of this dead letter
	letter  string // the UID of the stored dead letter
	reused  bool   // a message with another ID was applied with the same Seq
	drains  bool   // parked messages of its key may be next
	begins  bool   // the key of the message begins in this pass
	behind  bool   // not tried, because an earlier message of its key has failed in the same pass

	result *Result
}

// identity identifies a message by its source and ID.
type identity struct{ source, id string }

func (it *item) identity() identity { return identity{it.m.Source, it.m.ID} }

// stream returns the stream of the message. It has an empty key if the message has no key.
func (it *item) stream() stream { return stream{it.m.Source, it.m.Topic, it.m.Key} }

func (it *item) isMarker() bool { return it.m.Type == message.TypeSkipped }

// usesID reports whether the inbox recognises the message by its ID.
func (it *item) usesID() bool { return !it.ordered && it.twin == nil }

// forget clears the result of a pass.
func (it *item) forget() {
	it.outcome, it.err, it.refusal, it.class, it.reused, it.drains, it.begins, it.behind = "", nil, nil, "", false, false, false, false
}

// known sets the outcome of the item from the stored row of a message with the same ID.
func (it *item) known(k *known) {
	o, same := k.outcome(it)
	it.outcome = o
	if !same {
		it.refuse(classMismatch, errSameID)
	}
}

// refuse marks the item, so that it becomes a dead letter without an attempt.
func (it *item) refuse(class string, err error) {
	it.outcome, it.class, it.refusal = DeadLettered, class, err
}

// newItem returns the item of m, which checked has returned.
func (in *Inbox[TX]) newItem(m message.Message) *item {
	it := &item{m: m, from: StateNew, result: new(Result)}
	it.ordered = in.cfg.Order != AnyOrder && m.Key != "" && m.Seq > 0
	it.hash, it.envelope = []byte{}, []byte{}
	if !it.isMarker() {
		h := sha256.Sum256(m.Payload)
		it.hash, it.envelope = h[:], letter.Envelope(m.Topic, m.Key, m.Type)
	}
	return it
}

// inTurn returns items in the order in which they are applied. This is the order of arrival, but the messages of
// one key are sorted by their Seq.
func inTurn(items []*item) []*item {
	first := map[stream]int{}
	place := make(map[*item]int, len(items))
	sorted := true
	last := map[stream]int64{}
	for i, it := range items {
		place[it] = i
		if !it.ordered {
			continue
		}
		s := it.stream()
		if at, seen := first[s]; seen {
			// All messages of a key get the place of its first message, so that the sort keeps them together.
			place[it] = at
			sorted = sorted && last[s] <= it.m.Seq
		} else {
			first[s] = i
		}
		last[s] = it.m.Seq
	}
	if sorted { // the usual case needs no copy
		return items
	}
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b *item) int {
		if c := cmp.Compare(place[a], place[b]); c != 0 {
			return c
		}
		return cmp.Compare(a.m.Seq, b.m.Seq)
	})
	return items
}

// failed reports whether the handler of the message has failed in the last pass.
func (it *item) failed() bool {
	return it.err != nil && !it.behind && !errors.Is(it.err, ErrTooFarAhead)
}
