// Package oncetest tests handlers that must take effect once, whether they use package once or not.
//
//	func TestRefunds(t *testing.T) {
//		oncetest.HTTP(t, oncetest.Service{
//			Start: func(p *oncetest.Process) http.Handler { // as main does, once for each life of the process
//				db := p.Open("sqlite", file)
//				s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
//				...
//				return newService(once.New(oncetest.Store(p, s), once.Config{}))
//			},
//			Request: func() *http.Request { return httptest.NewRequest("POST", "/refunds", strings.NewReader(`{"amount":5}`)) },
//		})
//	}
//
// [HTTP], [Do], [Lease] and [Inbox] ask for the work of a handler without a fault first, which teaches its effects: the rows of all
// tables, the sums of their numbers, the messages. Then they ask again and again, each time under a new key and with one fault, and retry until
// there is an answer. In the end the effects must be those of one request, and a further duplicate must get the same answer.
// Each fault is a subtest.
//
// For tests of one handler alone, [WithTx] and [InTx] have all happen in a transaction that the test rolls back.
package oncetest
