// Package oncetest tests handlers that must take effect once. Package oncetest can test handlers that use package once, and also other handlers.
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
// The functions [HTTP], [Do], [Lease] and [Inbox] first send requests without a fault, to measure the effects of one request: the changes of the
// numbers of rows in all tables, of the sums of numeric columns, and of the messages. Then HTTP, Do, Lease and Inbox cause one fault in each further
// request. Each request with a fault is sent again until it has a final answer, and then one more time. After a request with a fault, the effects of
// all its attempts together must equal the effects of one request without a fault, and all final answers to the request must be the same. The test
// runs one subtest for each fault.
//
// [WithTx] and [InTx] are for tests of one handler without faults: the handler works in a transaction that the test rolls back.
//
// The directory "examples" of this repository has tests with routers, ORMs, gRPC and Connect, on SQLite and PostgreSQL. The test in examples/chi
// uses HTTP and WithTx, the test in examples/gorm uses Lease, the test in examples/inbox uses Inbox, and the test in examples/outbox uses InTx and
// RequireMessage.
package oncetest
