package outbox

import (
	"cmp"
	"context"
	"slices"
)

// order decides which items of units can be published now, and in which order. A message with a key waits while
// an earlier message of its key is in the table. A slow transaction may have committed the earlier message
// below the mark, or an older release may have put it into another part.
func (r *Relay) order(ctx context.Context, units []*unit) error {
	var unsure []*item
	for _, u := range units {
		sortItems(u)
		unsure = append(unsure, r.board.sort(u)...)
	}
	if err := r.findPredecessors(ctx, unsure); err != nil {
		return err
	}
	r.board.follow(units, unsure)
	return nil
}

// sortItems sorts the items of a unit by id. If the unit has read keys, it sorts by key and number.
func sortItems(u *unit) {
	slices.SortStableFunc(u.items, func(a, b *item) int {
		if u.work == workFreed {
			return cmp.Or(cmp.Compare(a.message.Key, b.message.Key), cmp.Compare(a.message.Seq, b.message.Seq))
		}
		return cmp.Compare(a.id, b.id)
	})
}

// keyOf is a key in a queue. While the messages of a key are in two parts, the key belongs to two queues.
type keyOf struct {
	queue *queue
	key   string
}

// sort marks the items of a unit that must wait. It returns the items whose previous message may still be in
// the table.
func (b *board) sort(u *unit) (unsure []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := map[keyOf]int64{}
	for _, it := range u.items {
		m := &it.message
		it.outcome = outcomeWaits
		if it.blocked || b.isPaused(streamOf(m)) {
			continue
		}
		it.outcome = outcomeLeft
		if m.Key == "" {
			continue
		}
		k := keyOf{it.queue, m.Key}
		last, known := before[k]
		if !known {
			last = it.queue.last[m.Key]
		}
		first := u.work == workFreed && !known // the statement has read the first message of the key
		// This process has not delivered the previous message, or does not remember the delivery. Only the
		// database knows whether the message still waits.
		if last != m.Seq-1 && m.Seq != 1 && !first {
			unsure = append(unsure, it)
		}
		before[k] = m.Seq
	}
	return unsure
}

// follow marks the items that wait because an earlier item of their key waits. The relay reads the keys of
// unsure items again.
func (b *board) follow(units []*unit, unsure []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range unsure {
		if it.outcome == outcomeWaits {
			it.queue.free(it.message.Key)
		}
	}
	for _, u := range units {
		waits := map[keyOf]bool{}
		for _, it := range u.items {
			k := keyOf{it.queue, it.message.Key}
			if k.key != "" && waits[k] {
				it.outcome = outcomeWaits
			}
			waits[k] = it.outcome == outcomeWaits
		}
	}
}
