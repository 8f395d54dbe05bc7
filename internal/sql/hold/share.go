package hold

import (
	"cmp"
	"maps"
	"slices"
)

// share returns how many of the parts node should hold. counts contains the live nodes, including node, with the number of parts
// that each holds now. The parts that remain after the division go to the nodes that hold the most, so that an even
// distribution stays as it is.
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
