package outbox

import (
	"cmp"
	"context"
	"slices"
)

// order decides which items of units can be published now, in which order. A message with a key waits while an earlier one of its key is in the
// table: a transaction that was slow may commit it below the mark, and an older release has put it into another part.
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

// sortItems sorts the items of a unit: by id, or by number if keys were read.
func sortItems(u *unit) {
	slices.SortStableFunc(u.items, func(a, b *item) int {
		if u.work == workFreed {
			return cmp.Or(cmp.Compare(a.message.Key, b.message.Key), cmp.Compare(a.message.Seq, b.message.Seq))
		}
		return cmp.Compare(a.id, b.id)
	})
}

// keyOf is a key in a queue: while a key has messages in two parts, two queues have some.
type keyOf struct {
	queue *queue
	key   string
}

// sort marks the items of a unit that wait, and returns those of which it is not known whether an earlier one of their key is there.
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
		first := u.work == workFreed && !known // it was read by its number
		if last != m.Seq-1 && m.Seq != 1 && !first {
			unsure = append(unsure, it)
		}
		before[k] = m.Seq
	}
	return unsure
}

// follow has items wait that are behind one of their key that waits. What waits for an earlier message is read by key.
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
