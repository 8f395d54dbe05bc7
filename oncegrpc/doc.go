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
// All unary calls are protected, with two exceptions: methods that the .proto file declares to be harmless (idempotency_level NO_SIDE_EFFECTS or
// IDEMPOTENT), and the services that come with gRPC (health, channelz). Streams are not protected.
//
// # Rules for handlers
//
// The handler's answer and the metadata that the handler sets are sent after the commit; [grpc.SendHeader] sends nothing earlier. A handler can run
// more than once before one run commits. Put authentication before this interceptor, further to the left in the chain, so that authentication decides
// about each call.
//
// If the handler returns a message, the writes are committed and the message is stored. InvalidArgument, NotFound, AlreadyExists, FailedPrecondition
// and OutOfRange are final errors: the writes are rolled back, and the status with its details is stored and replayed. After any other error the
// writes are rolled back, nothing is stored, and a retry is executed. Return an error that is not a status, such as an error of the database, without
// converting it: after a serialization failure or a deadlock the handler then runs again, and the client never sees the text of the error.
//
// The message or the status of an answer is stored; the metadata of the answer is not stored. If a message is larger than [Config].MaxStored (1 MiB),
// the writes are committed, and the message is sent only once: a retry receives RESULT_UNAVAILABLE and is not executed.
//
// # Metadata
//
//	idempotency-key        request   "key" or key, as in package oncehttp
//	once-attempt           request   1 for the first attempt, 2 for the next, ...; with 1, the server saves a look-up
//	                                 (the server adds grpc-previous-rpc-attempts, which clients with a retryPolicy send)
//	once-first-sent        request   the time of the first attempt, the same in every attempt: 1767225600000
//	                                 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	once-undoes            request   instead of idempotency-key, in a call that undoes: the key of the call to undo
//	traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed one is ignored
//	idempotency-status     answer    stored, replayed, or ignored (a retry is executed again); undone, nothing: see Undo
//	idempotent-replayed    answer    true on a replay
//	idempotency-retention  answer    for how many seconds after its execution the answer is replayed
//
// [once.Operation].Name is the full method, such as /payments.v1.Refunds/CreateRefund.
//
// After the retention the stored answer is deleted, and a later retry would be executed again. A retry that has once-first-sent receives STALE
// instead. With [Config].KeyTime, a retry whose key is too old receives STALE too.
//
// If a key was used before with another request, the call is refused. Requests are compared in the form that [proto.MarshalOptions] calls
// deterministic. The deterministic form could change when the protobuf module of a server is upgraded. A retry that is sent after such an upgrade
// would then be refused, and not executed.
//
// # Undo
//
// A service that takes part in the saga of another service has a second method for each of its methods. The second method undoes calls of the first
// one. The second method is [once.Undo] over gRPC. [Config].Undoes maps the undoing method to the undone method. A call of the undoing method has the
// metadata once-undoes with the key of the call to undo. The call to undo may not have arrived yet. If the call to undo was executed, the handler of
// the undo runs once, [Undone] returns the answer of the undone call, and the status is "undone". If the call to undo was not executed, the answer is
// an empty message with the status "nothing"; if the call to undo arrives later, it is refused with UNDONE. While the call to undo is in flight, the
// undo receives IN_FLIGHT. An idempotency-key in the call of the undoing method is ignored.
//
// # Errors
//
// Errors of the engine have the detail google.rpc.ErrorInfo, with the domain oncelib.dev and the metadata retryable and safe_new_key, which package
// oncehttp explains. If the server can say when a retry makes sense, these errors also have a google.rpc.RetryInfo.
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
// harmless. The client makes one attempt of any other call; if this attempt fails, a [retry.Error] says that a key was missing.
//
//	Unavailable, DeadlineExceeded, Internal, Unknown, Canceled by the server   again
//	IN_FLIGHT                                      again; the budget pays three tenths of a retry
//	ResourceExhausted with a RetryInfo             again, not before the time in it
//	grpc-retry-pushback-ms                         again, not before that time; final if it is negative
//	idempotent-replayed, with an error             final: the key will always get this answer
//	anything else                                  final
//
// The client converts errors of the server's engine to [once.Error]. If the client gives up, it returns a [retry.Error]. [status.Code] finds the
// gRPC status in a [once.Error] and in a [retry.Error]. The client has one retry budget for each target of a connection. gRPC itself also
// retries if a service config has a retryPolicy. Disable these retries with [grpc.WithDisableRetry], so that only one layer retries.
package oncegrpc
