// Package oncehttp makes HTTP handlers take effect once per idempotency key: the writes of the handler, the key and the answer are one commit, and a
// retry gets the same answer again, byte for byte.
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
// Use [Handler] for handlers that take the transaction as an argument, and [BatchHandler] for handlers that read nothing between their writes.
//
// # What a handler can rely on
//
// Nothing reaches the client before the commit. The answer is held in memory: Flush does nothing, 1xx answers and trailers are dropped, and calls
// that cannot wait (Hijack, server-sent events, deadlines of [http.ResponseController]) are refused. The body of the request has been read. Answers
// of 2xx and 3xx commit; with a definitive 4xx the writes are rolled back and the answer is stored; any other answer is sent as it is and nothing is
// stored ([DefaultPreset] has the list, [Decide] overrides it, [Fail] reports an error). After a panic the transaction is rolled back, and the panic
// goes on to the server.
//
// A handler can run more than once before one run commits. Each run has a fresh body and a fresh answer; it must not use results of an earlier run,
// nor change the header of the request.
//
// # Order of middleware
//
// Authentication comes first, outside of this middleware: it decides for each request, retries included, and its 401 and 403 are never stored. A
// client that has lost access does not get the stored answer either. Rate limits come before as well. A bound on concurrent requests is a
// [Config].Gate, which lets replays pass. Middleware that reads the body or the form belongs inside: a body that was read outside, or a multipart
// form that was parsed there (CSRF middleware that calls FormValue), cannot be compared any more, and is answered with 500.
//
// Recovery from panics, compression, logging and [http.TimeoutHandler] belong outside, too:
// docs/middleware.md has the whole order, and why.
//
// [http.TimeoutHandler] belongs outside: its 503 says nothing about the operation, and a retry with the same key gets the outcome. Inside, its 503
// rolls back while the handler still runs: later statements of that handler fail, and pgxstore closes the connection if a statement is running.
//
// Headers of outer middleware are visible to the handler. They are part of the stored answer if they are among the stored headers, except
// Content-Encoding. A replay has the same status, the same body and the same stored headers as the first answer. Other headers (Set-Cookie, Date,
// ...) are in the first answer only.
//
// # Headers
//
//	Idempotency-Key        request   "key" or key; X-Idempotency-Key is the same
//	X-Request-Timeout      request   how long the client waits: 1500 (milliseconds), 1.5s; the handler's deadline
//	Once-Attempt           request   1 for the first attempt, 2 for the next, ...; 1 saves a look-up
//	Once-First-Sent        request   when that was, on every attempt alike: 1767225600000 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	Once-Undoes            request   in place of Idempotency-Key where a request undoes another one: the key of that
//	Traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed one is ignored
//	X-Request-Id, X-Correlation-Id   request   for the observer; without the second one, the id of the trace is taken
//	Idempotency-Status     answer    stored; replayed; omitted (executed, but too large to be stored: a retry is
//	                                 refused); not-stored (nothing was applied, as with a 409: a retry with the
//	                                 same key executes); ignored (there is no key, or the method is not keyed);
//	                                 missing (work under a lease has stopped after a part of it);
//	                                 undone, nothing: see Undo
//	WWW-Authenticate       answer    on our own 401: Preset.Challenge
//	Idempotent-Replayed    answer    true on a replay
//	Idempotency-Redacted   answer    on a replay: JSON Pointers to what the first answer had, and is null here ([Config].Redact)
//	Idempotency-Retention  answer    for how many seconds after its execution the answer is replayed
//
// The key has 1 to 255 bytes. In quotation marks it is a String of RFC 9651, whose
// parameters are ignored; a bare key is printable ASCII without quotation marks, commas
// and semicolons, which could be a sign of two headers or of parameters. Two different
// keys in one request are refused, and so are two lines of one header.
//
// A route may ask for keys of one form ([KeyFormat]) and say what makes two requests the same one ([Compare]).
//
// [once.Operation].Name, for metrics and logs, is the method and the pattern of the route:
// "POST /refunds/{id}". Where [http.Request.Pattern] is not known, because the middleware is
// outside of the router, it is the method alone; a path may be one of too many for a metric.
//
// The retention is a number of seconds, like Retry-After and max-age. It is not the rest of it: only the database's clock could tell that.
//
// # Retries after the retention
//
// A key is forgotten after its retention, and a retry would be executed again. A client that sends Once-First-Sent with its retries gets 412 instead,
// unless the answer is still stored: the first attempt may have been executed and forgotten. A new key would not help, since the operation may be
// done: the client must look at the data that it wanted to change. A client that sends Once-First-Sent with its first attempt too is also protected
// against copies that arrive days late, at the cost of a look-up. Clocks may differ by [once.Config].Skew.
//
// # Work under leases
//
// On an engine of package lease the handler gets a *lease.Run instead of a transaction, and its writes and calls are phases. Its context does not end
// with the context of the request: if a client hangs up, the work goes on, and its retry waits for it, on any node. A duplicate waits for
// Config.Wait, and then gets 409 with Retry-After and, with Config.StatusURL, the URL of the state, which [StatusHandler] serves. A failure rolls
// back no finished phase: the retry goes on after it. [Resume] finishes work without its client. Every request needs a key: Config.Optional is
// refused, and a [Handler] accepts only keyed methods. A [BatchHandler] is refused: a batch has no phases.
//
// # Undo
//
// A service that takes part in the saga of another one has a second route that undoes the operations of a route: it is [once.Undo] over HTTP.
//
//	deposits := oncehttp.Config{Principal: account}
//	undos := deposits
//	undos.Undoes = "POST /deposits"
//	mux.Handle("POST /deposits", authenticate(oncehttp.Handler(engine, deposits, deposit)))
//	mux.Handle("POST /deposits/undo", authenticate(oncehttp.Handler(engine, undos, takeBack)))
//
// A request to the second route names in Once-Undoes the key of a request to the first route, which may still arrive later. The undo has a scope and
// a key of its own, derived from those of the undone operation, however many clients ask for it; an Idempotency-Key of the request is ignored.
// Requests to undo are compared with each other, and not with the operation that they undo.
//
//   - The deposit was made: the handler runs once. [http.Request.Response] is the answer to the deposit, as it is stored. The answer has
//     "Idempotency-Status: undone", on a replay as well; if the handler writes no answer it is 204.
//   - It was not made: 204, "Idempotency-Status: nothing". It never will be made: a request that arrives late gets 409,
//     CONFLICT.idempotency.undone. The same 204 is the answer if the deposit has a stored 4xx, which had no effect.
//   - It is under way: 409 with Retry-After, after Config.Wait.
//
// # Programs that are not handlers
//
// [Middleware] consists of a [Route], which reads requests, and an [Exchange] for each of them. A gateway uses these two directly.
//
// # Dialects
//
// All differences between APIs with such keys are in a [Preset], which is data: [DefaultPreset], the presets of the packages oncehttp/stripe and
// oncehttp/refundplaybook, or a changed copy of one of them. The rest of this page is about DefaultPreset.
//
// # Problems
//
// Errors are application/problem+json ([Problem]). The type is
// https://oncelib.dev/problems/ (or Preset.ProblemBase) and the code in lower case, with slashes and hyphens:
// .../conflict/idempotency/in-flight. [ProblemPages] serves a page for each.
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
// A Gate adds its own codes. The codes of package limit are RATE_LIMIT.exceeded (429) and TRANSIENT.overloaded (503), both retryable, neither with a
// safe new key.
//
// [Fail] outside of the middleware, where nothing is rolled back, has the code INTERNAL.handler_failed and is not retryable.
//
// retryable: the same request with the same key may succeed later. If the outcome is unknown it is yes, with a Retry-After, if the called service can
// be asked (lease.Check). safe_new_key: it is proven that nothing was applied under this key and nothing can be, so that a new attempt under another
// key repeats no effect. That is rare:
//
//   - After a rollback, or while the database is away, an earlier or delayed copy of the
//     request may have been applied or may yet be. The same key is safe, another one is not.
//   - A refusal before the key was looked up (401, 413) says nothing about
//     earlier attempts.
//   - A mismatch says that the key was used before. If the client has changed
//     its request between two attempts, it was used by the client's own first attempt, and a
//     new key would repeat the effect. Only the programmer of the client can tell.
//   - A retry that is too old may repeat a finished operation.
//   - An operation that was undone before its request arrived is not wanted under another key either.
//   - A missing or malformed key has never named an operation. But if one source
//     of keys is malformed, another source may have named one.
//   - A stored 4xx of a handler is final: there a handler can say yes in its own problem.
package oncehttp
