package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store/sqlplane"
)

// firsts holds, with Config.FromAny, the keys whose sequence has begun in this process but perhaps not in the
// database: a message of the key has arrived, and the beginning of the key is not stored. While a key is in
// firsts, a later message does not begin the key.
type firsts struct {
	mu   sync.Mutex
	list map[stream]*first
}

// first is the message with which a key begins.
type first struct {
	seq  int64
	left bool // no call works on the message any more, and the beginning of its key must still be stored
}

// maxFirsts limits how many beginnings one transaction stores.
const maxFirsts = 100

// keepWithin limits the time in which keepFirsts stores beginnings, also if the context of the caller has ended.
const keepWithin = 5 * time.Second

// arrive notes the messages that may begin a key. A message with a smaller Seq than the noted one replaces it, so
// that neither of them is lost.
func (f *firsts) arrive(items []*item, maxJump int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list == nil {
		f.list = map[stream]*first{}
	}
	for _, it := range items {
		if !it.ordered || it.m.Seq > maxJump { // a wrong Seq must not become the first Seq of the key
			continue
		}
		if one := f.list[it.stream()]; one == nil {
			f.list[it.stream()] = &first{seq: it.m.Seq}
		} else {
			one.seq = min(one.seq, it.m.Seq)
		}
	}
}

// of returns the Seq with which a key begins if the message seq is the next one that is handled.
func (f *firsts) of(s stream, seq int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.list[s]; one != nil {
		return min(one.seq, seq)
	}
	return seq
}

// forget removes keys whose beginnings are stored.
func (f *firsts) forget(streams ...stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range streams {
		delete(f.list, s)
	}
}

// leave returns the keys whose beginnings must be stored: the keys of items that have failed, and some of the keys
// that earlier calls have left.
func (f *firsts) leave(items []*item) map[stream]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range items {
		if one := f.list[it.stream()]; one != nil && it.ordered && it.result.Err != nil {
			one.left = true
		}
	}
	list := map[stream]int64{}
	for s, one := range f.list {
		if one.left && len(list) < maxFirsts {
			list[s] = one.seq
		}
	}
	return list
}

// fromAny reports whether a key may begin with any Seq.
func (c *Config) fromAny() bool { return c.Order == InOrder && c.FromAny }

// begun notes that a commit has stored the beginnings of the keys of items.
func (in *Inbox[TX]) begun(items ...*item) {
	if !in.cfg.fromAny() {
		return
	}
	for _, it := range items {
		if it.ordered && it.m.Seq <= in.cfg.MaxJump { // a message with a larger Seq begins no key
			in.firsts.forget(it.stream())
		}
	}
}

// keepFirsts stores the beginnings of the keys whose first messages have failed without a counted attempt, for
// example because the database or ctx has ended the transaction. If keepFirsts cannot store a beginning, the
// beginning stays in in.firsts, and a later call stores it.
func (in *Inbox[TX]) keepFirsts(ctx context.Context, items []*item) {
	list := in.firsts.leave(items)
	if len(list) == 0 {
		return
	}
	streams := make([]stream, 0, len(list))
	for s := range list {
		streams = append(streams, s)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	err := letter.Within(ctx, in.db, func(ctx context.Context, r sqlplane.Runner) error {
		positions, err := in.lock(ctx, r, streams)
		if err != nil {
			return err
		}
		for s, seq := range list {
			if at := positions[s]; in.cfg.beginsAt(at) {
				at.begin(seq)
			}
		}
		return in.write(ctx, r, positions)
	})
	if err == nil {
		in.firsts.forget(streams...)
	}
}
