// Package oncegrpc makes unary gRPC calls take effect once per idempotency key. The writes of the handler, the key and the answer are committed in
// one transaction. A retry with the same key gets the same answer again.
//
//	server := grpc.NewServer(grpc.UnaryInterceptor(
//		oncegrpc.UnaryServerInterceptor(engine, oncegrpc.Config{Principal: account})))
//
//	func (s *service) CreateRefund(ctx context.Context, req *pb.CreateRefundRequest) (*pb.Refund, error) {
//		tx := oncegrpc.Tx[pgx.Tx](ctx)
//		... write through tx, return as usual ...
//	}
//
// A client that retries with the same key:
//
//	conn, err := grpc.NewClient(target, grpc.WithDisableRetry(), grpc.WithUnaryInterceptor(
//		oncegrpc.UnaryClientInterceptor(oncegrpc.ClientConfig{})))
//
//	ctx = oncegrpc.WithKey(ctx, once.NewKey()) // one per intent
//	refund, err := client.CreateRefund(ctx, req)
//
// # Which calls
//
// The interceptor protects all unary calls, with two exceptions: methods that the .proto file declares to be harmless (idempotency_level
// NO_SIDE_EFFECTS or IDEMPOTENT), and the services that come with gRPC (health, channelz). Streams are not protected.
//
// # Rules for handlers
//
// The handler's answer and the metadata that the handler sets are sent after the commit; if the handler calls [grpc.SendHeader], the header is also
// sent after the commit. A handler can run more than once before one of its runs commits. Put the interceptor for authentication before the
// interceptor of this package (further to the left in the chain), so that authentication decides about each call.
//
// If the handler returns a message, the writes of the handler are committed and the message is stored. InvalidArgument, NotFound, AlreadyExists,
// FailedPrecondition and OutOfRange are final errors: the writes are rolled back, and the status with its details is stored and replayed. After an
// error that is not final, the writes are rolled back, nothing is stored, and a retry is executed. If the handler gets an error that is not a
// status, such as an error of the database, the handler should return this error without converting it. The interceptor can then run the handler
// again after a serialization failure or a deadlock, and never sends the text of the error to the client.
//
// The message or the status of an answer is stored; the metadata of the answer is not stored. If a message is larger than [Config].MaxStored (1 MiB),
// the writes are committed, and the message is sent only once: a retry receives RESULT_UNAVAILABLE and is not executed.
//
// # Metadata
//
//	idempotency-key        request   "key" or key, as in package oncehttp
//	once-attempt           request   1 for the first attempt, 2 for the next, ...; with 1, the server does not look up the key
//	                                 (the server adds grpc-previous-rpc-attempts, which clients with a retryPolicy send)
//	once-first-sent        request   the time of the first attempt, the same in every attempt: 1767225600000
//	                                 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	once-undoes            request   instead of idempotency-key, in a call that undoes: the key of the call to undo
//	traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed value is ignored
//	idempotency-status     answer    stored, replayed, or ignored (a retry is executed again); undone, nothing: see Undo
//	idempotent-replayed    answer    true on a replay
//	idempotency-retention  answer    for how many seconds after its execution the answer is replayed
//
// [once.Operation].Name is the full method, such as /payments.v1.Refunds/CreateRefund.
//
// After the retention the stored answer is deleted, and a later retry would be executed again. To prevent a second execution, send
// once-first-sent with each attempt: a retry whose first attempt is older than the retention then receives STALE. With [Config].KeyTime, a
// retry whose key is older than the retention also receives STALE.
//
// If the key of a call was used before with a different request, the server refuses the call. Requests are compared in the form that
// [proto.MarshalOptions] calls deterministic. The deterministic form could change when the protobuf module of a server is upgraded. If the
// deterministic form changes, a retry of a call from before the upgrade is refused, and not executed.
//
// # Undo
//
// If a service takes part in the saga of another service, each method of the service needs a second method, which undoes calls of the first method:
// the undoing method undoes calls of the undone method. A call of the undoing method does the same as [once.Undo], over gRPC. The map
// [Config].Undoes has the undoing method as its key and the undone method as its value. A call of the undoing method has the metadata once-undoes
// with the key of the call to undo. The server accepts a call of the undoing method even if the call to undo has not arrived yet. If the call to
// undo was executed, the handler of the undoing method runs once, the function [Undone] returns the answer of the undone call to this handler, and
// the idempotency status of the answer is "undone". If the call to undo was not executed, the answer is an empty message with the idempotency
// status "nothing"; if the call to undo arrives later, the server refuses the call to undo with the reason UNDONE. While the call to undo is in
// flight, a call of the undoing method receives the reason IN_FLIGHT. The server ignores an idempotency-key in a call of the undoing method.
//
// # Errors
//
// Errors of the engine have the detail google.rpc.ErrorInfo, with the domain oncelib.dev and the metadata retryable and safe_new_key, which the
// documentation of package oncehttp explains. If the server knows when a retry makes sense, the error also has a google.rpc.RetryInfo.
//
//	reason              code                retryable
//	UNAUTHENTICATED     Unauthenticated     no
//	KEY_MISSING         InvalidArgument     no
//	KEY_INVALID         InvalidArgument     no
//	FIRST_SENT_INVALID  InvalidArgument     no
//	IN_FLIGHT           Aborted             yes
//	MISMATCH            FailedPrecondition  no
//	UNKNOWN             FailedPrecondition  no
//	STALE               FailedPrecondition  no
//	RESULT_UNAVAILABLE  FailedPrecondition  no
//	UNDONE              FailedPrecondition  no
//	STORED_BYTES        ResourceExhausted   yes, and only with Config.Quota
//	CONFLICT            Unavailable         yes
//	UNAVAILABLE         Unavailable         yes
//	FAILED              Internal            yes
//	ABORTED             Internal            yes
//	MISUSE              Internal            no
//
// # Which calls a client repeats
//
// The client repeats a call that has a key (from [WithKey], from its metadata or from [ClientConfig].Keys), and a call that is declared to be
// harmless. If a call has no key and is not declared to be harmless, the client makes only one attempt; if this attempt fails, a
// [retry.Error] says that a key was missing.
//
//	Unavailable, DeadlineExceeded, Internal, Unknown, Canceled by the server   again
//	IN_FLIGHT                                      again; takes three tenths of a retry from the budget
//	ResourceExhausted with a RetryInfo             again, not before the time in the RetryInfo
//	grpc-retry-pushback-ms                         again, not before the given time; final if the value is negative
//	idempotent-replayed, with an error             final: the key will always get this answer
//	anything else                                  final
//
// The client converts each error of the server's engine to a [once.Error]. If the client gives up a call, the client returns a [retry.Error].
// [status.Code] finds the gRPC status in a [once.Error] and in a [retry.Error]. The client has one retry budget for each target of a connection.
// If a service config has a retryPolicy, gRPC itself also retries. Disable the retries of gRPC with [grpc.WithDisableRetry], so that only one
// layer retries.
package oncegrpc
