package limit

// share is a number of slots that several tenants share. A tenant may take a slot only while more slots are free than it
// has. So tenants that take many slots leave some to tenants that come later.
type share struct {
	free   int
	shared bool           // several tenants share the slots
	taken  map[string]int // slots by tenant
}

func newShare(places int, shared bool) share {
	return share{free: max(0, places), shared: shared, taken: map[string]int{}}
}

// take takes a slot if one is free and the tenant may have one more.
func (s *share) take(tenant string) bool {
	if s.free == 0 || s.shared && s.taken[tenant] >= s.free {
		return false
	}
	s.free--
	s.taken[tenant]++
	return true
}

// giveBack gives a slot of the tenant back.
func (s *share) giveBack(tenant string) {
	s.free++
	if s.taken[tenant]--; s.taken[tenant] == 0 {
		delete(s.taken, tenant)
	}
}
