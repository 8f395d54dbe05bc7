package webhook

import "time"

// Standings of targets, the best first. Good targets may take all places, new targets three quarters, and
// targets in trouble half of them. So hanging endpoints leave places for others, even if the relay does not
// know yet that they hang.
const (
	standingGood    = iota // the last request was answered
	standingNew            // no request was answered yet since this process knows it
	standingTrouble        // requests fail or are slow
	standings
)

// standing returns how well the endpoint of a target has answered recently.
func (t *target) standing() int {
	switch {
	case t.failures > 0 || t.slow > 0:
		return standingTrouble
	case !t.known:
		return standingNew
	}
	return standingGood
}

// queued is a target in a queue. The key is the time of the next look at the target.
type queued struct {
	key    time.Time
	target *target
}

// queue is a heap of targets, the earliest first.
type queue []queued

// Len implements [heap.Interface].
func (q *queue) Len() int { return len(*q) }

// Less implements [heap.Interface].
func (q *queue) Less(i, j int) bool { return (*q)[i].key.Before((*q)[j].key) }

// Swap implements [heap.Interface].
func (q *queue) Swap(i, j int) {
	list := *q
	list[i], list[j] = list[j], list[i]
	list[i].target.index, list[j].target.index = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	e := x.(queued) //nolint:forcetypeassert // the heap has nothing else
	e.target.index = len(*q)
	*q = append(*q, e)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	last.target.index = -1
	return last
}
