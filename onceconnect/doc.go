// Package onceconnect makes unary RPCs of connect-go take effect once per idempotency key. The writes of the handler, the key and the answer are
// committed in one transaction. A retry with the same key gets the same answer again. The package works with the protocols Connect, gRPC and
// gRPC-Web.
//
//	path, handler := paymentsv1connect.NewRefundsHandler(service, connect.WithInterceptors(
//		onceconnect.NewInterceptor(engine, onceconnect.Config{Principal: account})))
//
//	func (s *service) CreateRefund(ctx context.Context, req *pb.CreateRefundRequest) (*pb.Refund, error) {
//		tx := onceconnect.Tx[pgx.Tx](ctx)
//		... write through tx, return as usual ...
//	}
//
// A client that retries with the same key:
//
//	client := paymentsv1connect.NewRefundsClient(http.DefaultClient, url, connect.WithInterceptors(
//		onceconnect.NewClientInterceptor(onceconnect.ClientConfig{})))
//
//	ctx = onceconnect.WithKey(ctx, once.NewKey()) // one per intent
//	refund, err := client.CreateRefund(ctx, req)
//
// Do not put the middleware of package oncehttp around a Connect handler: the middleware of oncehttp sends errors in a form that RPC clients do not
// understand, and does not see the status of a gRPC answer, which is in the trailer.
//
// # Which calls
//
// The interceptor protects all unary calls, with two exceptions: methods that the .proto file declares to be harmless (idempotency_level
// NO_SIDE_EFFECTS or IDEMPOTENT), and the services that come with gRPC (health). Streams are not protected.
//
// # Rules for handlers
//
// A handler can run more than once before one of its runs commits. Put authentication before the interceptor of this package, so that
// authentication decides about each call: put the interceptor for authentication further to the left in the list, or use an HTTP middleware for
// authentication.
//
// If the handler returns a message, the writes of the handler are committed and the message is stored. invalid_argument, not_found, already_exists,
// failed_precondition and out_of_range are final errors: the writes are rolled back, and the error with its details is stored and replayed. After an
// error that is not final, the writes are rolled back, nothing is stored, and a retry is executed. If the handler gets an error that is not a
// [connect.Error], such as an error of the database, the handler should return this error without converting it. The interceptor can then run the
// handler again after a serialization failure or a deadlock, and never sends the text of the error to the client.
//
// The message or the error of an answer is stored; the headers and trailers of the answer are not stored. If a message is larger than
// [Config].MaxStored (1 MiB), the writes are committed, and the message is sent only once: a retry receives RESULT_UNAVAILABLE and is not executed.
//
// # Headers
//
//	Idempotency-Key        request   "key" or key, as in package oncehttp
//	Once-Attempt           request   1 for the first attempt, 2 for the next, ...; with 1, the server does not look up the key
//	                                 (the server adds Grpc-Previous-Rpc-Attempts, which gRPC clients with a retryPolicy send)
//	Once-First-Sent        request   the time of the first attempt, the same in every attempt: 1767225600000
//	                                 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	Once-Undoes            request   instead of Idempotency-Key, in a call that undoes: the key of the call to undo
//	Traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed value is ignored
//	Idempotency-Status     answer    stored, replayed, or ignored (a retry is executed again); undone, nothing: see Undo
//	Idempotent-Replayed    answer    true on a replay
//	Idempotency-Retention  answer    for how many seconds after its execution the answer is replayed
//
// [once.Operation].Name is the procedure, such as /payments.v1.Refunds/CreateRefund.
//
// After the retention the stored answer is deleted, and a later retry would be executed again. To prevent a second execution, send
// Once-First-Sent with each attempt: a retry whose first attempt is older than the retention then receives STALE. With [Config].KeyTime, a
// retry whose key is older than the retention also receives STALE.
//
// If the key of a call was used before with a different request, the server refuses the call. Requests are compared in the form that
// [proto.MarshalOptions] calls deterministic. The deterministic form could change when the protobuf module of a server is upgraded. If the
// deterministic form changes, a retry of a call from before the upgrade is refused, and not executed.
//
// # Undo
//
// If a service takes part in the saga of another service, each method of the service needs a second method, which undoes calls of the first method:
// the undoing method undoes calls of the undone method. A call of the undoing method does the same as [once.Undo], over Connect. The map
// [Config].Undoes has the undoing method as its key and the undone method as its value. A call of the undoing method has the header Once-Undoes with
// the key of the call to undo. The server accepts a call of the undoing method even if the call to undo has not arrived yet. If the call to undo was
// executed, the handler of the undoing method runs once, the function [Undone] returns the answer of the undone call to this handler, and the
// idempotency status of the answer is "undone". If the call to undo was not executed, the answer is an empty message with the idempotency status
// "nothing"; if the call to undo arrives later, the server refuses the call to undo with the reason UNDONE. While the call to undo is in flight, a
// call of the undoing method receives the reason IN_FLIGHT. The server ignores an Idempotency-Key in a call of the undoing method.
//
// # Errors
//
// Errors of the engine have the detail google.rpc.ErrorInfo, with the domain oncelib.dev and the metadata retryable and safe_new_key, which the
// documentation of package oncehttp explains. If the server knows when a retry makes sense, the error also has a google.rpc.RetryInfo.
//
//	reason              code                 retryable
//	UNAUTHENTICATED     unauthenticated      no
//	KEY_MISSING         invalid_argument     no
//	KEY_INVALID         invalid_argument     no
//	FIRST_SENT_INVALID  invalid_argument     no
//	IN_FLIGHT           aborted              yes
//	MISMATCH            failed_precondition  no
//	UNKNOWN             failed_precondition  no
//	STALE               failed_precondition  no
//	RESULT_UNAVAILABLE  failed_precondition  no
//	UNDONE              failed_precondition  no
//	STORED_BYTES        resource_exhausted   yes, and only with Config.Quota
//	CONFLICT            unavailable          yes
//	UNAVAILABLE         unavailable          yes
//	FAILED              internal             yes
//	ABORTED             internal             yes
//	MISUSE              internal             no
//
// # Which calls a client repeats
//
// The client repeats a call that has a key (from [WithKey], from its header or from [ClientConfig].Keys), and a call that is declared to be harmless.
// If a call has no key and is not declared to be harmless, the client makes only one attempt; if this attempt fails, a [retry.Error] says that a key
// was missing.
//
//	unavailable, deadline_exceeded, internal, unknown, canceled by the server   again
//	IN_FLIGHT                                      again; takes three tenths of a retry from the budget
//	resource_exhausted with a RetryInfo            again, not before the time in the RetryInfo
//	Idempotent-Replayed, with an error             final: the key will always get this answer
//	anything else                                  final
//
// The client converts each error of the server's engine to a [once.Error]. If the client gives up a call, the client returns a [retry.Error].
// [connect.CodeOf] finds the code in both errors. The client has one retry budget for each host. The client sends the name of the header
// Idempotency-Key in lower case, because net/http repeats a request with this header by itself if the name is not in lower case.
package onceconnect
