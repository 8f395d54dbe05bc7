package webhook

import "time"

// Standings of targets, the best first. Good targets may take all places, targets in trouble at most half of
// them, and new ones at most three quarters. So hanging endpoints leave places to others, even if it is not
// known yet that they hang.
const (
	standingGood    = iota // the last request was answered
	standingNew            // no request was answered yet since this process knows it
	standingTrouble        // requests fail or are slow
	standings
)

// standing is how a target is doing.
func (t *target) standing() int {
	switch {
	case t.failures > 0 || t.slow > 0:
		return standingTrouble
	case !t.known:
		return standingNew
	}
	return standingGood
}

// queued is a target and when it is looked at.
type queued struct {
	key    time.Time
	target *target
}

// queue is a heap, the earliest first.
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
