package attemptlog

import "github.com/oncelib/once/internal/sql/attempts"

// queue is a ring buffer of attempts.
type queue struct {
	list  []attempts.Attempt
	first int
	n     int
}

// push appends a. The caller has checked that there is room.
func (q *queue) push(a *attempts.Attempt) {
	q.list[(q.first+q.n)%len(q.list)] = *a
	q.n++
}

// peek appends the first attempts of the queue to list, up to the capacity of list.
func (q *queue) peek(list []attempts.Attempt) []attempts.Attempt {
	for i := range min(q.n, cap(list)-len(list)) {
		list = append(list, q.list[(q.first+i)%len(q.list)])
	}
	return list
}

// drop removes the first n attempts.
func (q *queue) drop(n int) {
	for range n {
		q.list[q.first] = attempts.Attempt{} // so that its texts can be freed
		q.first = (q.first + 1) % len(q.list)
		q.n--
	}
}
