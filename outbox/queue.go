package outbox

import (
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/message"
)

// Bounds of a queue.
const (
	leastRows  = 64                     // that a claim asks for; four times as many while more rows follow
	leastCost  = leastRows / 4          // rows that a claim expects of such a queue: of many queues, few have more
	pageRows   = 256                    // of a page
	retryRows  = 256                    // of one read of failures
	maxFailing = 1000 / queuesOfTopic   // messages that are tried again; when a queue has more, its other messages are not read
	maxFreed   = 1000                   // keys; pages find the messages of further keys
	maxLast    = 256                    // keys
	commits    = 100 * time.Millisecond // how far commits usually are out of the order of their ids
	retryPoll  = time.Second            // a person may make failures due at any time
	pagePause  = 500 * time.Millisecond // between two passes
	share      = 20                     // pages and scans use at most one part in this of the time
)

// queue is the state that a relay keeps of the messages of one topic in one part that this process holds. One
// unit of work at a time uses a queue. It is a cache of the database: in doubt it is dropped, and read from its
// beginning.
type queue struct {
	topic *topic
	part  hold.Part
	gone  bool // the part is lost, or another process held it meanwhile

	// Every message up to mark that was visible at the time of the read is either delivered or waiting: see the
	// field waiting.
	mark     int64
	from     int64 // the mark some time ago; claims begin here
	next     int64 // the next value of from
	agedAt   time.Time
	tail     int64 // the highest id that is known
	late     int64 // the lowest id that has appeared at or below the mark while the queue was claimed; 0 means no such id
	rows     int   // that the next claim asks for
	claimed  bool
	seen     int64     // tail when it was claimed
	asked    int       // rows
	released time.Time // the last time

	failed  bool // once_outbox_failed has messages of this queue
	failing int  // messages that are tried again
	retryAt time.Time

	waiting bool                // messages at or below the mark wait: they have failed, or are behind a failed one, or are paused
	freed   map[string]struct{} // keys whose messages wait for nothing any more: they are read by key, in order
	page    int64               // the id that the current pass through the waiting messages has reached
	found   bool                // this pass has found a message
	pageAt  time.Time

	last map[string]int64 // the number of the last delivered message, for some keys
}

// work is the kind of work that a unit does with its queues.
type work uint8

const (
	workClaim work = iota // reads above the marks
	workRetry             // reads failed messages that are due
	workFreed             // reads keys that wait for nothing any more
	workPage              // reads a page of the waiting messages at or below the marks
	works
)

// has reports whether the queue has work of this kind now, or from which time it will have some.
func (q *queue) has(w work, now time.Time) (bool, time.Time) {
	switch {
	case q.claimed || q.gone:
	case w == workClaim:
		return q.tail > q.mark && !q.full(), time.Time{}
	case w == workRetry && q.failed:
		return !now.Before(q.retryAt), q.retryAt
	case w == workFreed:
		return len(q.freed) > 0, time.Time{}
	case w == workPage && q.waiting && q.mark > 0 && !q.full():
		return !now.Before(q.pageAt), q.pageAt
	}
	return false, time.Time{}
}

// full reports whether so many messages are failing that no others are read.
func (q *queue) full() bool { return q.failing >= maxFailing }

// inTrouble reports whether messages of the queue have failed or wait.
func (q *queue) inTrouble() bool { return q.failed || q.waiting || len(q.freed) > 0 }

// low returns the id above which a claim begins. It repeats the ids of a moment ago, because transactions commit out of the order of their ids: most
// of these rows are deleted by now. If messages of the queue wait, pages repeat them instead.
func (q *queue) low() int64 {
	if q.inTrouble() {
		return q.mark
	}
	return min(q.from, q.mark)
}

// move moves the mark.
func (q *queue) move(mark int64, now time.Time) {
	if now.Sub(q.agedAt) >= commits {
		q.from, q.next, q.agedAt = q.next, q.mark, now
	}
	q.mark = mark
	q.from, q.next = min(q.from, mark), min(q.next, mark)
}

// rewind makes the queue read messages from id on again.
func (q *queue) rewind(id int64, now time.Time) {
	q.tail = max(q.tail, id)
	if id <= q.mark {
		q.move(id-1, now)
	}
}

// free records that the messages of a key wait for no other message any more.
func (q *queue) free(key string) {
	if key == "" || len(q.freed) >= maxFreed {
		return
	}
	if q.freed == nil {
		q.freed = map[string]struct{}{}
	}
	q.freed[key] = struct{}{}
}

// delivered remembers the number of a delivered message.
func (q *queue) delivered(m *message.Message) {
	if m.Key == "" {
		return
	}
	// A full map is dropped: a forgotten number costs only a look-up.
	if q.last == nil || len(q.last) >= maxLast {
		q.last = map[string]int64{}
	}
	q.last[m.Key] = m.Seq
}

// finish records the outcomes of the items of this queue that a unit of work has read, in their order.
func (q *queue) finish(w work, items []*item, took time.Duration, now time.Time) {
	last, left := int64(0), int64(0)
	for _, it := range items {
		last = max(last, it.id)
		if it.outcome == outcomeLeft && (left == 0 || it.id < left) {
			left = it.id
		}
		q.settleItem(w, it, now)
	}
	switch w {
	case workClaim:
		q.finishClaim(items, last, left, now)
	case workPage:
		q.found = q.found || len(items) > 0
		q.page, q.pageAt = max(q.page, last), now.Add(share*took)
		if len(items) < q.asked { // the pass is over
			q.waiting = q.found
			q.page, q.found, q.pageAt = 0, false, now.Add(max(pagePause, share*took))
		} else if left > 0 {
			q.page = left - 1
		}
	}
	if q.late > 0 {
		q.rewind(q.late, now)
		q.late = 0
	}
	q.claimed, q.released = false, now
}

func (q *queue) finishClaim(items []*item, last, left int64, now time.Time) {
	mark := max(q.mark, last)
	if left > 0 {
		mark = left - 1
	}
	q.move(mark, now)
	switch full := len(items) >= q.asked; {
	case full || left > 0:
		q.tail = max(q.tail, mark+1)
	case q.tail == q.seen: // no message was added meanwhile
		q.tail = mark
	}
	if len(items) >= q.asked && q.asked >= q.rows {
		// The read was full, so a backlog exists: larger reads need fewer statements.
		q.rows *= 4
	} else if len(items) < q.asked {
		q.rows = leastRows
	}
}

// settleItem notes the outcome of one item.
func (q *queue) settleItem(w work, it *item, now time.Time) {
	switch it.outcome {
	case outcomeDelivered:
		q.delivered(&it.message)
		if it.failure != nil {
			q.failing = max(0, q.failing-1)
			// Later messages of the key may have waited for this one.
			q.free(it.message.Key)
			q.waiting = true
		}
	case outcomeFailed:
		q.failed, q.waiting = true, true
		// The next message of the key must look for this one in the table.
		delete(q.last, it.message.Key)
		if it.nextAt.IsZero() {
			if it.failure != nil {
				q.failing = max(0, q.failing-1)
			}
			return
		}
		if it.failure == nil {
			q.failing++
		}
		if it.nextAt.Before(q.retryAt) {
			q.retryAt = it.nextAt
		}
	case outcomeWaits:
		q.waiting = true
		if soon := now.Add(commits); w == workRetry && soon.Before(q.retryAt) { // an earlier message of its key is still in the table
			q.retryAt = soon
		}
	case outcomeLeft:
		switch w {
		case workFreed:
			q.free(it.message.Key)
		case workRetry:
			q.retryAt = now
		case workClaim, workPage:
		}
	}
}
