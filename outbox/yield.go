package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store/sqlplane"
)

// A relay that reaches no destination for some TTLs, while another relay delivers, releases its parts, and takes parts again later.
const (
	barrenTTLs = 3
	awayTTLs   = 6
)

var errBarren = errors.New("this relay cannot reach any destination, but another relay delivers messages, so this relay releases its parts of the outbox and tries again later. Try: check the network of this process")

// yield signals giveUp each time when this process should release its parts. It works until ctx ends.
func (r *Relay) yield(ctx context.Context, giveUp func()) {
	var before map[int]int64
	for sleep.For(ctx, r.cfg.TTL); ctx.Err() == nil; sleep.For(ctx, r.cfg.TTL) {
		held, done := r.holder.Use(allParts)
		done()
		// A relay with all parts has no other relay that could deliver instead.
		if len(held) == 0 || len(held) == parts || !r.board.barren(barrenTTLs*r.cfg.TTL) {
			before = nil
			continue
		}
		mine := map[int]bool{}
		for _, h := range held {
			mine[h.Number] = true
		}
		now, err := r.firsts(ctx, mine)
		if err != nil {
			continue // other statements report that the database has failed
		}
		for part, id := range before {
			if !mine[part] && now[part] != id { // it was delivered
				r.tell(ctx, Event{Type: EventUnavailable, Err: errBarren})
				giveUp()
				now = nil
				break
			}
		}
		before = now
	}
}

// firsts returns the lowest ids of the parts that are not in mine, if they have messages.
func (r *Relay) firsts(ctx context.Context, mine map[int]bool) (map[int]int64, error) {
	rows := make([][]any, 0, parts)
	for n := range parts {
		if !mine[n] {
			rows = append(rows, []any{int64(n)})
		}
	}
	q := r.query()
	q.each(rows, []string{"smallint"}, func(value columnOf) {
		q.write("select part, id from once_outbox where part = ")
		value(0)
		q.write(" order by part, id limit 1")
	})
	firsts := map[int]int64{}
	err := r.try(ctx, func(ctx context.Context) error {
		return r.db.Pool().Query(ctx, q.statement(), func(row sqlplane.Row) error {
			var part int
			var id int64
			err := row.Scan(&part, &id)
			firsts[part] = id
			return err
		})
	})
	return firsts, err
}

// noteTry notes whether a destination was reached.
func (b *board) noteTry(reached bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case reached:
		b.failing = time.Time{}
	case b.failing.IsZero():
		b.failing = time.Now()
	}
}

// barren reports whether all tries for some time have reached no destination.
func (b *board) barren(d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.failing.IsZero() && time.Since(b.failing) > d
}
