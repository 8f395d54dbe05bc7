package limit

// share is a number of slots that tenants share. One tenant may take a slot only while more are free
// than it has: so tenants that take many leave some to tenants that come later.
type share struct {
	free   int
	shared bool           // between several tenants
	taken  map[string]int // by tenant
}

func newShare(places int, shared bool) share {
	return share{free: max(0, places), shared: shared, taken: map[string]int{}}
}

// take takes a slot, if the tenant may have one more.
func (s *share) take(tenant string) bool {
	if s.free == 0 || s.shared && s.taken[tenant] >= s.free {
		return false
	}
	s.free--
	s.taken[tenant]++
	return true
}

// giveBack ends what take has begun.
func (s *share) giveBack(tenant string) {
	s.free++
	if s.taken[tenant]--; s.taken[tenant] == 0 {
		delete(s.taken, tenant)
	}
}
