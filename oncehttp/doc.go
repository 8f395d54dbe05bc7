// Package oncehttp makes HTTP handlers take effect once per idempotency key: what the
// handler writes, the key and the answer are one commit, and a retry gets that answer
// again, byte for byte.
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
// Handlers that take the transaction as an argument are made with [Handler], those that
// read nothing between their writes with [BatchHandler].
//
// # What a handler can rely on
//
// Nothing reaches the client before the commit. The answer is held in memory: Flush
// does nothing, 1xx answers and trailers are dropped, and what cannot wait (Hijack,
// server-sent events, deadlines of [http.ResponseController]) is refused. The body of
// the request has been read. Answers of 2xx and 3xx commit; with a definitive 4xx the
// writes are rolled back and the answer is stored; any other answer is sent as it is
// and nothing is stored ([DefaultPreset] has the list, [Decide] overrides it, [Fail] reports
// an error). A panic rolls back and goes on to the server.
//
// A handler can run more than once before one run commits. Each run has a fresh body
// and a fresh answer; it must not keep what it learnt in an earlier run, nor change the
// header of the request.
//
// # Order of middleware
//
// Authentication comes first, outside of this middleware: it decides for each request,
// retries included, and its 401 and 403 are never stored. A client that has lost access does
// not get the stored answer either. Rate limits come before as well, but what bounds how
// many are served at the same time is a [Config].Gate, which lets replays pass. What reads
// the body or the form belongs inside: a body that was read outside, or a multipart form that
// was parsed there (CSRF middleware that calls FormValue), cannot be compared any more, and is
// answered with 500.
//
// Recovery from panics, compression, logging and [http.TimeoutHandler] belong outside, too:
// docs/middleware.md has the whole order, and why.
//
// [http.TimeoutHandler] belongs outside: its 503 says nothing about the operation, and a retry
// with the same key learns what became of it. Inside, its 503 rolls back while the handler
// still runs: later statements of that handler fail, and pgxstore closes the connection if one
// is under way.
//
// Headers that outer middleware has set are visible to the handler and, if they are
// among those that are stored, part of the stored answer, except Content-Encoding. A replay has the same status,
// the same body and the same stored headers as the first answer. Others (Set-Cookie,
// Date, ...) are in the first answer only.
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
// The retention is a number of seconds, like Retry-After and max-age, and does not say
// how much is left of it: only the database's clock could.
//
// # Retries after the retention
//
// A key whose retention is over is not known any more, and a retry would be executed
// again. A client that sends Once-First-Sent with its retries is told 412 instead, unless
// the answer is still there: the first attempt may have been executed and forgotten. A
// new key would not help, since the operation may be done: only looking at what it was to
// change tells. A client that says it with its first attempt, too, protects also copies
// of that which come days late, for the price of a look-up. Clocks may differ by
// [once.Config].Skew.
//
// # Work under leases
//
// On an engine of package lease the handler gets a *lease.Run in place of a transaction, and its
// writes and calls are phases. Its context does not end with that of the request: a client that hangs up does not end the
// work, and its retry attaches to it, on any node. A duplicate waits for Config.Wait, and then is told 409 with Retry-After
// and, with Config.StatusURL, where [StatusHandler] tells the state. After a phase, a failure rolls nothing back: the retry goes on
// behind it. [Resume] ends work without its client. Every request needs a key: Config.Optional is refused, and a [Handler] is for methods that are keyed. A
// [BatchHandler] is refused: a batch has no phases.
//
// # Undo
//
// A service that takes part in the saga of another one has a route that undoes what a route has done: it is [once.Undo] over HTTP.
//
//	deposits := oncehttp.Config{Principal: account}
//	undos := deposits
//	undos.Undoes = "POST /deposits"
//	mux.Handle("POST /deposits", authenticate(oncehttp.Handler(engine, deposits, deposit)))
//	mux.Handle("POST /deposits/undo", authenticate(oncehttp.Handler(engine, undos, takeBack)))
//
// A request of the second route names in Once-Undoes the key that a request of the first one had, or may yet have. The undo has a scope and a
// key of its own beside those of what it undoes, however many clients ask for it; an Idempotency-Key of the request is not looked at. Its own
// requests are compared with each other, and not with what they undo.
//
//   - The deposit was made: the handler runs once. [http.Request.Response] is the answer to the deposit, as it is stored. The answer says
//     "Idempotency-Status: undone", on a replay as well; without a word of the handler it is 204.
//   - It was not made: 204, "Idempotency-Status: nothing". It is not made any more: a request that comes late is told 409,
//     CONFLICT.idempotency.undone. The same 204 answers where a 4xx is stored, for that has no effect.
//   - It is under way: 409 with Retry-After, after Config.Wait.
//
// # Programs that are no handler
//
// [Middleware] is made of a [Route], which reads requests, and an [Exchange] for each of them. A gateway uses both in its place.
//
// # Dialects
//
// Everything in which APIs with such keys differ is a [Preset], which is data: [DefaultPreset], those of
// the packages oncehttp/stripe and oncehttp/refundplaybook, or one of them with something changed.
// The rest of this page is about DefaultPreset.
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
// A Gate adds its own: those of package limit are RATE_LIMIT.exceeded (429) and
// TRANSIENT.overloaded (503), both retryable, neither with a safe new key.
//
// [Fail] outside of the middleware, where nothing is rolled back, is INTERNAL.handler_failed
// and not retryable.
//
// retryable: the same request with the same key may succeed later; of an unknown outcome it is yes, with a Retry-After, if the
// service that was called can be asked (lease.Check). safe_new_key: it is
// proven that nothing was applied under this key and nothing can be, so that starting
// anew with another one does nothing twice. That is rare:
//
//   - After a rollback, or while the database is away, an earlier or delayed copy of the
//     request may have been applied or may yet be. The same key is safe, another one is not.
//   - What was refused before the key was looked up (401, 413) says nothing about
//     earlier attempts.
//   - A mismatch says that something was asked under this key. If the client has changed
//     its request between two attempts, that something was its own first attempt, and a
//     new key would do it twice. Whether it was, only its programmer can tell.
//   - A retry that is too old may repeat what was done.
//   - What was undone before it came is not wanted under another key either.
//   - A key that is missing or cannot be one has never named an operation. Where one source
//     of keys is unusable and another one carries something, that may have.
//   - A stored 4xx of a handler is final: there a handler can say yes in its own problem.
package oncehttp
