package hold

import (
	"cmp"
	"maps"
	"slices"
)

// share is how many of parts node should hold. counts are the live nodes, node among them, and how many parts each holds
// now. The nodes that hold the most get the parts that remain after the division, so that an even spread
// does not move.
func share(parts int, counts map[string]int, node string) int {
	order := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	n := parts / len(order)
	if slices.Index(order, node) < parts%len(order) {
		n++
	}
	return n
}
