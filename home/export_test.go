package home

// The tests with databases are in integration/home: "make test-of DIR=home" runs them after these.

// Spans are the scopes of a tenant.
func Spans(tenant string) (list [][2]string) {
	for _, s := range spansOf(tenant) {
		list = append(list, [2]string{s.from, s.before})
	}
	return list
}
