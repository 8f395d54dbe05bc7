// Package onceconnect makes unary RPCs of connect-go take effect once per idempotency key. The writes of the handler, the key and the answer are
// committed in one transaction. A retry with the same key gets the same answer again. This applies to the Connect, gRPC and gRPC-Web protocols.
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
// Do not put the middleware of package oncehttp around a Connect handler: that middleware sends errors in a form that RPC clients do not understand,
// and it does not see the status of a gRPC answer, which is in the trailer.
//
// # Which calls
//
// All unary calls are protected, with two exceptions: methods that the .proto file declares to be harmless (idempotency_level NO_SIDE_EFFECTS or
// IDEMPOTENT), and the services that come with gRPC (health). Streams are not protected.
//
// # Rules for handlers
//
// A handler can run more than once before one run commits. Put authentication before this interceptor, further to the left in the list or as HTTP
// middleware, so that authentication decides about each call.
//
// If the handler returns a message, the writes are committed and the message is stored. invalid_argument, not_found, already_exists,
// failed_precondition and out_of_range are final errors: the writes are rolled back, and the error with its details is stored and replayed. After any
// other error the writes are rolled back, nothing is stored, and a retry is executed. Return an error that is not a [connect.Error], such as an error
// of the database, without converting it: after a serialization failure or a deadlock the handler then runs again, and the client never sees the text
// of the error.
//
// The message or the error of an answer is stored; the headers and trailers of the answer are not stored. If a message is larger than
// [Config].MaxStored (1 MiB), the writes are committed, and the message is sent only once: a retry receives RESULT_UNAVAILABLE and is not executed.
//
// # Headers
//
//	Idempotency-Key        request   "key" or key, as in package oncehttp
//	Once-Attempt           request   1 for the first attempt, 2 for the next, ...; with 1, the server saves a look-up
//	                                 (the server adds Grpc-Previous-Rpc-Attempts, which gRPC clients with a retryPolicy send)
//	Once-First-Sent        request   the time of the first attempt, the same in every attempt: 1767225600000
//	                                 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	Once-Undoes            request   instead of Idempotency-Key, in a call that undoes: the key of the call to undo
//	Traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed one is ignored
//	Idempotency-Status     answer    stored, replayed, or ignored (a retry is executed again); undone, nothing: see Undo
//	Idempotent-Replayed    answer    true on a replay
//	Idempotency-Retention  answer    for how many seconds after its execution the answer is replayed
//
// [once.Operation].Name is the procedure, such as /payments.v1.Refunds/CreateRefund.
//
// After the retention the stored answer is deleted, and a later retry would be executed again. A retry that has Once-First-Sent receives STALE
// instead. With [Config].KeyTime, a retry whose key is too old receives STALE too.
//
// If a key was used before with another request, the call is refused. Requests are compared in the form that [proto.MarshalOptions] calls
// deterministic. The deterministic form could change when the protobuf module of a server is upgraded. A retry that is sent after such an upgrade
// would then be refused, and not executed.
//
// # Undo
//
// A service that takes part in the saga of another service has a second method for each of its methods. The second method undoes calls of the first
// one. The second method is [once.Undo] over Connect. [Config].Undoes maps the undoing method to the undone method. A call of the undoing method has
// the header Once-Undoes with the key of the call to undo. The call to undo may not have arrived yet. If the call to undo was executed, the handler
// of the undo runs once, [Undone] returns the answer of the undone call, and the status is "undone". If the call to undo was not executed, the answer
// is an empty message with the status "nothing"; if the call to undo arrives later, it is refused with UNDONE. While the call to undo is in flight,
// the undo receives IN_FLIGHT. An Idempotency-Key in the call of the undoing method is ignored.
//
// # Errors
//
// Errors of the engine have the detail google.rpc.ErrorInfo, with the domain oncelib.dev and the metadata retryable and safe_new_key, which package
// oncehttp explains. If the server can say when a retry makes sense, these errors also have a google.rpc.RetryInfo.
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
// The client makes one attempt of any other call; if this attempt fails, a [retry.Error] says that a key was missing.
//
//	unavailable, deadline_exceeded, internal, unknown, canceled by the server   again
//	IN_FLIGHT                                      again; the budget pays three tenths of a retry
//	resource_exhausted with a RetryInfo            again, not before the time in it
//	Idempotent-Replayed, with an error             final: the key will always get this answer
//	anything else                                  final
//
// The client converts errors of the server's engine to [once.Error]. If the client gives up, it returns a [retry.Error]. [connect.CodeOf] finds the
// code in both errors. The client has one retry budget for each host. The name of the key's header is sent in lower case, because net/http would
// otherwise repeat the request by itself.
package onceconnect
