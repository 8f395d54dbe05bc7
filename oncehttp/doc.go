// Package oncehttp makes HTTP handlers take effect only one time for each idempotency key. The writes of the handler, the key and the answer are
// committed in one transaction. A retry with the same key gets the same answer again, byte for byte.
//
//	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
//	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: account})
//
//	mux.Handle("POST /refunds", authenticate(protect(http.HandlerFunc(
//		func(w http.ResponseWriter, r *http.Request) {
//			tx := oncehttp.Tx[pgx.Tx](r.Context())
//			... write through tx, answer to w as usual ...
//		}))))
//
// Use [Handler] for a handler that takes the transaction as an argument, and [BatchHandler] for a handler that reads nothing from the database
// between its writes.
//
// # What a handler can rely on
//
// The client receives nothing before the commit. The answer of the handler is held in memory until the commit. Therefore the method Flush of
// http.Flusher does nothing, and 1xx answers and trailers are dropped. Calls that cannot wait for the commit (Hijack, server-sent events, deadlines
// of [http.ResponseController]) are refused. The whole body of the request is read before the handler begins.
//
// The status of the handler's answer decides whether the transaction is committed. If the status is 2xx or 3xx, the writes are committed and the
// answer is stored. If the status is a definitive 4xx (such as 404 or 422), the writes are rolled back and the answer is stored. With a status that
// is neither 2xx, 3xx nor a definitive 4xx, the writes are rolled back, and the answer is sent but not stored. [DefaultPreset] has the rule for each
// status, [Decide] overrides the rule for one answer, and [Fail] reports an error of the handler. After a panic of the handler the transaction is
// rolled back, and the panic continues in the server.
//
// A handler can run several times before one run commits. Each run reads the body of the request from the first byte, and begins with an empty
// answer. A run must not use results of an earlier run, and must not change the header of the request.
//
// # Order of middleware
//
// Put authentication outside of this middleware, so that authentication runs first. Authentication then decides about each request, including
// retries, and its answers with 401 and 403 are never stored. Because authentication runs first, a client that has lost its access gets no stored
// answer. Put rate limits outside of this middleware as well. To limit concurrent requests, set [Config].Gate: a Gate lets replays (requests with a
// stored answer) pass.
//
// Put other middleware that reads the body or the form of a request inside of this middleware. If outer middleware has read the body, or has parsed a
// multipart form (as CSRF middleware does when it calls FormValue), this middleware can no longer compare the body, and answers the request with 500.
//
// Put recovery from panics, compression, logging and [http.TimeoutHandler] outside of this middleware, too. The page docs/middleware.md has the whole
// order of middleware, and the reasons for the order.
//
// If [http.TimeoutHandler] is outside of this middleware, its 503 does not say whether the operation was executed, and a retry with the same key gets
// the outcome. If [http.TimeoutHandler] is inside of this middleware, its 503 rolls the transaction back while the handler still runs. After a
// rollback by [http.TimeoutHandler] the later SQL statements of the handler fail, and pgxstore closes the database connection if a statement is
// running.
//
// The handler sees the answer headers that outer middleware has set. A header that outer middleware has set is stored with the answer if it is one of
// the stored headers (Config.Headers) and is not Content-Encoding. A replay has the same status, the same body and the same stored headers as the
// first answer. Headers of the handler that are not stored (Set-Cookie, Date, ...) are in the first answer only.
//
// # Headers
//
//	Idempotency-Key        request   "key" or key; X-Idempotency-Key is the same
//	X-Request-Timeout      request   how long the client waits: 1500 (milliseconds), 1.5s; it becomes the handler's deadline
//	Once-Attempt           request   1 for the first attempt, 2 for the next, ...; with 1, the server saves a look-up
//	Once-First-Sent        request   the time of the first attempt, the same in every attempt: 1767225600000
//	                                 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	Once-Undoes            request   instead of Idempotency-Key, on a route that undoes: the key of the request that is undone
//	Traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed one is ignored
//	X-Request-Id, X-Correlation-Id   request   for the observer; without X-Correlation-Id, the id of the trace is used
//	Idempotency-Status     answer    stored; replayed; omitted (executed, but too large to be stored: a retry is
//	                                 refused); not-stored (nothing was applied, as with a 409: a retry with the
//	                                 same key is executed); ignored (the request has no key, or its method carries no keys);
//	                                 no such header (work under a lease has stopped after some of its phases);
//	                                 undone, nothing: see Undo
//	WWW-Authenticate       answer    on a 401 of this package: Preset.Challenge
//	Idempotent-Replayed    answer    true on a replay
//	Idempotency-Redacted   answer    on a replay: JSON Pointers to the values that are not stored and are null here ([Config].Redact)
//	Idempotency-Retention  answer    for how many seconds after its execution the answer is replayed
//
// The key has 1 to 255 bytes. A key in quotation marks is a String of RFC 9651, and parameters after the String are ignored. A key without quotation
// marks is printable ASCII without quotation marks, commas and semicolons, because a comma could separate two keys, and a semicolon could begin a
// parameter. A request is refused if it has two different keys, or two lines of one key header.
//
// A route may require keys of one form ([KeyFormat]), and may choose the parts of a request that are compared between two requests with the same key
// ([Compare]).
//
// Metrics and logs name an operation by [once.Operation].Name: the method and the pattern of the route, such as "POST /refunds/{id}". If the
// middleware is outside of the router, [http.Request.Pattern] is not set, and the name of an operation is only the HTTP method. The path of a request
// is never used as the name of an operation, because the label of a metric must have few different values.
//
// The value of the header Idempotency-Retention is a number of seconds, like Retry-After and max-age. The value of Idempotency-Retention is the whole
// retention, counted from the execution, and not the time that remains, because only the clock of the database can measure the remaining time.
//
// # Retries after the retention
//
// A key is deleted after its retention, and a later retry with this key would be executed again. If a client sends the header Once-First-Sent with
// its retries, a retry after the retention gets 412 and is not executed, because the first attempt may have been executed and its record may have
// been deleted. If the answer to the first attempt is still stored, the client gets this answer instead of 412. After a 412 a new key is not safe,
// because the first attempt may have been executed: the client must read the data that it wanted to change. If a client sends Once-First-Sent with
// its first attempt too, the client is also protected against copies of the first attempt that arrive days late. The protection by Once-First-Sent
// costs one look-up in the database. The clocks of client and server may differ by at most [once.Config].Skew.
//
// # Work under leases
//
// With an engine of package lease the handler gets a *lease.Run instead of a transaction, and does its writes and calls in phases, each with its own
// commit. The handler's context does not end with the context of the request. If a client disconnects, the work goes on, and a retry on any node
// waits for the end of the work. A duplicate request waits for at most the time Config.Wait, and then gets 409 with the header Retry-After. If
// Config.StatusURL is set, the answer with 409 contains the URL of the operation's state, which [StatusHandler] serves.
//
// If work under a lease fails, all its finished phases stay committed, and a retry continues after the last finished phase. The function [Resume]
// finishes the work of a request without the client that has sent the request. With an engine of package lease every request needs a key: Middleware
// panics if Config.Optional is set, and a [Handler] accepts only the methods that carry keys (Preset.Methods). BatchHandler panics with an engine of
// package lease, because a batch has no phases.
//
// # Undo
//
// A service that takes part in the saga of another service has, for each of its routes, a second route that undoes the operations of the first route.
// To make a route that undoes, set Config.Undoes. A route that undoes offers the function [once.Undo] over HTTP.
//
//	deposits := oncehttp.Config{Principal: account}
//	undos := deposits
//	undos.Undoes = "POST /deposits"
//	mux.Handle("POST /deposits", authenticate(oncehttp.Handler(engine, deposits, deposit)))
//	mux.Handle("POST /deposits/undo", authenticate(oncehttp.Handler(engine, undos, takeBack)))
//
// A request to the route that undoes has the header Once-Undoes. The value of Once-Undoes is the key of the original request, which is undone. The
// original request may arrive later than the request that undoes it. The undo is an operation with its own scope and key, which are derived from the
// scope and key of the undone operation. So the undo of an operation happens only one time, even if many clients request the undo. If an undo request
// has the header Idempotency-Key, this header is ignored. Two undo requests for one operation are compared with each other, and not with the
// operation that they undo.
//
//   - If the deposit of the example was made, the handler of the undo runs one time. The [http.Request.Response] of the undo's request is the stored
//     answer to the deposit. The answer to the undo has the header "Idempotency-Status: undone", on a replay as well; if the handler of the undo
//     writes no answer, the HTTP status is 204.
//   - If the deposit of the example was not made, the answer to the undo is 204 with "Idempotency-Status: nothing". After the undo, a request for the
//     deposit that arrives late is never executed: it gets 409, CONFLICT.idempotency.undone. If the stored answer to the deposit is a 4xx, the answer
//     to the undo is also 204 with "Idempotency-Status: nothing", because a deposit that was answered with 4xx had no effect.
//   - If the deposit of the example is being executed, the undo waits for at most the time Config.Wait. If the deposit is still being executed after
//     Config.Wait, the answer to the undo is 409 with the header Retry-After.
//
// # Programs that are not handlers
//
// [Middleware] is made of a [Route], which reads requests, and an [Exchange] for each request. A program that is not a handler, such as a gateway,
// uses Route and Exchange directly.
//
// # Dialects
//
// APIs that accept idempotency keys differ in headers, statuses and errors. All differences between APIs with idempotency keys are data in a
// [Preset]: [DefaultPreset], the presets of the packages oncehttp/stripe and oncehttp/refundplaybook, or a changed copy of one of them. The
// rest of this page describes DefaultPreset.
//
// # Problems
//
// Errors are sent as application/problem+json (the type [Problem]). The type of a problem is a URI: Preset.ProblemBase (default
// https://oncelib.dev/problems/), followed by the code in lower case with slashes and hyphens, such as .../conflict/idempotency/in-flight.
// [ProblemPages] serves a page for each type of problem.
//
//	code                                    status  retryable  safe_new_key
//	AUTH.unauthenticated                       401  no         no
//	VALIDATION.idempotency_key_missing         400  no         yes, unless a form cannot be read
//	VALIDATION.idempotency_key_invalid         400  no         yes, unless it may name an operation
//	VALIDATION.request_timeout_invalid         400  no         no
//	VALIDATION.first_sent_invalid              400  no         no
//	VALIDATION.body_unreadable                 400  yes        no
//	VALIDATION.body_too_large                  413  no         no
//	CONFLICT.idempotency.in_flight             409  yes        no
//	CONFLICT.idempotency.mismatch              422  no         no
//	CONFLICT.idempotency.unknown               409  no         no
//	CONFLICT.idempotency.stale                 412  no         no
//	CONFLICT.idempotency.result_unavailable    409  no         no
//	CONFLICT.idempotency.undone                409  no         no
//	RATE_LIMIT.stored_bytes                    429  yes        no, and only with Config.Quota
//	TRANSIENT.conflict                         503  yes        no
//	TRANSIENT.store_unavailable                503  yes        no
//	TRANSIENT.timeout                          503  yes        no
//	INTERNAL.handler_failed                    500  yes        no
//	INTERNAL.statement_error_swallowed         500  yes        no
//	INTERNAL.transaction_misused               500  no         no
//	INTERNAL.response_too_large                500  no         no
//	INTERNAL.streaming_refused                 500  no         no
//	INTERNAL.form_parsed                       500  no         no
//	INTERNAL.body_consumed                     500  no         no
//
// A Gate (a limit on requests) adds its own codes. The gates of package limit add RATE_LIMIT.exceeded (429) and TRANSIENT.overloaded (503); both
// codes have retryable yes and safe_new_key no.
//
// If [Fail] is called outside of the middleware, nothing is rolled back, and the client gets a problem with the code INTERNAL.handler_failed with
// retryable no.
//
// The value of retryable is yes if the same request with the same key may succeed later. The problem CONFLICT.idempotency.unknown is retryable, and
// has the header Retry-After, if the library can ask the called service for the outcome (lease.Check).
//
// The value of safe_new_key is yes if nothing was applied under the key of the request and nothing can be applied under it later. If safe_new_key is
// yes, a new attempt under another key repeats no effect. The value of safe_new_key is rarely yes:
//
//   - After a rollback, or while the database cannot be reached, an earlier or delayed copy of the request may have been applied or may be applied
//     later. A retry with the same key is safe, a retry with another key is not.
//   - If a request was refused before its key was looked up (401, 413), the refusal says nothing about earlier attempts with the key.
//   - A mismatch means that the key was used before with another request. If the client itself has changed its request between two attempts, an
//     attempt with a new key would repeat the effect of the first attempt. Only the programmer of the client knows whether the client changes
//     requests between attempts.
//   - A stale retry (a retry after the retention, 412) may repeat a finished operation whose record was deleted.
//   - If an operation was undone before its request arrived, the request must not be executed under another key.
//   - A missing or malformed key has never named an operation, so a new key is safe if the key of the request is missing or malformed. But if a
//     header has a malformed key, a form field of the same request may have a valid key that was used before.
//   - A stored 4xx of a handler is final: the handler can set Problem.SafeNewKey in its own problem.
package oncehttp
