package outbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	waitsEvery = 5 * time.Second
	maxWaits   = 1000 // topics whose waits a relay stores, at most
	waitRows   = 100  // of one statement
)

// topicWait is a topic whose messages wait for a reason that this process knows, such as a destination that is down.
type topicWait struct {
	topic  string
	reason Wait
	since  time.Time // by the clock of this process
	err    string
}

// stuckCall is how long the calls of a topic must hang before the topic is reported.
const stuckCall = 5 * time.Second

// waits returns the topics whose messages wait.
func (b *board) waits() (list []topicWait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	first, last := map[*topic]time.Time{}, map[*topic]time.Time{} // calls of Publish that are under way
	for u, began := range b.underWay {
		first[u.topic] = earlier(first[u.topic], began)
		if began.After(last[u.topic]) {
			last[u.topic] = began
		}
	}
	for _, t := range b.topics {
		n := topicWait{topic: t.name, since: now}
		switch {
		case t.paused: // a pause is in the database already
		case t.down > 0 && t.hasMessages():
			n.reason, n.since, n.err = WaitDown, t.since, errorText(t.cause)
		case t.calls >= t.Concurrency && now.Sub(last[t]) > stuckCall:
			n.reason, n.since = WaitHanging, first[t]
		case slices.ContainsFunc(t.queues, (*queue).full):
			n.reason = WaitFull
		case t.overRate(now):
			n.reason = WaitRate
		}
		// The same wait continues, so it keeps its beginning.
		if n.reason == t.wait.reason && n.err == t.wait.err {
			n.since = t.wait.since
		}
		if t.wait = n; n.reason != "" {
			list = append(list, n)
		}
	}
	return list
}

// setCause notes why a topic is down, for its report.
func (b *board) setCause(t *topic, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.cause = cause; t.down > 0 && t.since.IsZero() {
		t.since = time.Now()
	}
}

// hasMessages reports whether messages of the topic wait, as far as this process knows.
func (t *topic) hasMessages() bool {
	return slices.ContainsFunc(t.queues, func(q *queue) bool { return q.tail > q.mark || q.claimed || q.waiting })
}

// overRate reports whether messages wait because of Rate: then tokens are used at once, and otherwise they are saved.
func (t *topic) overRate(now time.Time) bool {
	if t.Rate <= 0 || !slices.ContainsFunc(t.queues, func(q *queue) bool { return q.tail > q.mark }) {
		return false
	}
	t.ready(now) // counts tokens
	return t.tokens < max(1, t.Rate)/2
}

// waitWriter stores which topics wait and why, as far as only this process knows, so that operators can read it: see [Box.Topics]. Rows count as long
// as the node holds or could hold parts. Only changes are written.
type waitWriter struct {
	db   sqlplane.Database
	node string
	told map[string]topicWait // the rows in the database; nil if they are not known
}

// write stores the waits of now, and deletes those that have ended.
func (n *waitWriter) write(ctx context.Context, now []topicWait) error {
	slices.SortFunc(now, func(a, b topicWait) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.topic, b.topic)) })
	now = now[:min(len(now), maxWaits)]
	told := n.told
	n.told = nil // until all is written
	if told == nil {
		if err := n.exec(ctx, "delete from once_outbox_wait where node = ?", n.node); err != nil {
			return err
		}
	}
	gone, next := told, map[string]topicWait{}
	var changed []topicWait
	for _, w := range now {
		if before, known := told[w.topic]; !known || before.reason != w.reason || !before.since.Equal(w.since) || before.err != w.err {
			changed = append(changed, w)
		}
		next[w.topic] = w
	}
	var over []string
	for topic := range gone {
		if _, still := next[topic]; !still {
			over = append(over, topic)
		}
	}
	slices.Sort(over)
	for list := range slices.Chunk(over, waitRows) {
		args := []any{n.node}
		for _, topic := range list {
			args = append(args, topic)
		}
		if err := n.exec(ctx, "delete from once_outbox_wait where node = ? and topic in (?"+strings.Repeat(", ?", len(list)-1)+")", args...); err != nil {
			return err
		}
	}
	slices.SortFunc(changed, func(a, b topicWait) int { return cmp.Compare(a.topic, b.topic) }) // the order in which rows are locked
	for list := range slices.Chunk(changed, waitRows) {
		var args []any
		for _, w := range list {
			args = append(args, w.topic, n.node, string(w.reason), time.Since(w.since).Microseconds(), w.err)
		}
		const row = "(?, ?, ?, AGO(?), ?)"
		if err := n.exec(ctx, "insert into once_outbox_wait (topic, node, reason, since, error) values "+row+strings.Repeat(", "+row, len(list)-1)+
			" UPSERT(topic, node) reason = NEW(reason), since = NEW(since), error = NEW(error)", args...); err != nil {
			return err
		}
	}
	n.told = next
	return nil
}

// forgetDead deletes the rows of processes that have ended.
func (n *waitWriter) forgetDead(ctx context.Context) error {
	return n.exec(ctx, "delete from once_outbox_wait where not exists (select 1 from once_hold_node n where n.work = 'outbox' and n.node = once_outbox_wait.node)")
}

func (n *waitWriter) exec(ctx context.Context, query string, args ...any) error {
	_, err := n.db.Pool().Exec(ctx, store.Statement{SQL: dialect.Text(n.db.Dialect(), query), Args: args})
	return err
}

// writeWaits stores from time to time which topics wait, until ctx ends.
func (r *Relay) writeWaits(ctx context.Context) {
	n := waitWriter{db: r.db, node: r.node}
	tick := time.NewTicker(waitsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = r.try(context.WithoutCancel(ctx), func(ctx context.Context) error { return n.write(ctx, nil) }) // the node is gone soon, and its rows no longer count
			return
		case <-tick.C:
		}
		err := r.try(ctx, func(ctx context.Context) error {
			err := n.write(ctx, r.board.waits())
			if held, done := r.holder.Use([]int{0}); err == nil && len(held) > 0 {
				err = n.forgetDead(ctx)
				done()
			} else {
				done()
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			r.tell(ctx, Event{Type: EventDatabase, Err: err})
		}
	}
}
