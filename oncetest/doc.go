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
// [HTTP], [Do], [Lease] and [Inbox] first make requests without a fault, which show the effects of one request: rows of all tables, sums of
// their numbers, messages. Then they make requests with one fault each, and send each until it has a final answer, and once more. Then the
// effects must equal the effects of one request, and all answers must be the same. Each fault is a subtest.
//
// [WithTx] and [InTx] test one handler, without faults: all of it is in a transaction that the test rolls back.
//
// The tests in the folder examples of this repository use them with routers, ORMs, gRPC and Connect on SQLite and PostgreSQL: chi has HTTP and WithTx, gorm Lease,
// inbox Inbox, and outbox InTx and RequireMessage.
package oncetest
