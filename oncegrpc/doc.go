// Package oncegrpc makes unary gRPC calls take effect once per idempotency key: the
// handler's writes, the key and the answer are one commit, and a retry gets that answer
// again.
//
//	server := grpc.NewServer(grpc.UnaryInterceptor(
//		oncegrpc.UnaryServerInterceptor(engine, oncegrpc.Config{Principal: account})))
//
//	func (s *service) CreateRefund(ctx context.Context, req *pb.CreateRefundRequest) (*pb.Refund, error) {
//		tx := oncegrpc.Tx[pgx.Tx](ctx)
//		... write through tx, return as usual ...
//	}
//
// and the other half, a client that retries with the same key:
//
//	conn, err := grpc.NewClient(target, grpc.WithDisableRetry(), grpc.WithUnaryInterceptor(
//		oncegrpc.UnaryClientInterceptor(oncegrpc.ClientConfig{})))
//
//	ctx = oncegrpc.WithKey(ctx, once.NewKey()) // one per intent
//	refund, err := client.CreateRefund(ctx, req)
//
// # Which calls
//
// All unary calls, except calls that the .proto file declares to be harmless with
// idempotency_level NO_SIDE_EFFECTS or IDEMPOTENT, and calls of the services that come
// with gRPC (health, channelz). Streams are not protected.
//
// # Rules for handlers
//
// Its answer is sent after the commit, and so is metadata that it sets; [grpc.SendHeader]
// sends nothing early. It can run more than once before one run commits. Authentication
// comes before this interceptor, in a chain further to the left, and decides for each call.
//
// A message commits. InvalidArgument, NotFound, AlreadyExists, FailedPrecondition and
// OutOfRange are final: the writes are rolled back and the status, details included, is
// stored and replayed. After any other error nothing is stored and a retry executes. An
// error that is no status, such as one of the database, is best returned as it is: after a
// serialization failure or a deadlock the handler runs again, and the client does not see
// its text.
//
// The message or the status of an answer is stored; its metadata is not. A message
// of more than [Config].MaxStored (1 MiB) is committed and answered once, and no retry gets
// it again: a retry receives RESULT_UNAVAILABLE, and does not execute.
//
// # Metadata
//
//	idempotency-key        request   "key" or key, as in package oncehttp
//	once-attempt           request   1 for the first attempt, 2 for the next, ...; 1 saves a look-up
//	                                 (grpc-previous-rpc-attempts, of a client with a retryPolicy, is added)
//	once-first-sent        request   when that was, on every attempt alike: 1767225600000 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	once-undoes            request   in place of idempotency-key where a call undoes another one: the key of that
//	traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed one is ignored
//	idempotency-status     answer    stored, replayed, or ignored (a retry executes again); undone, nothing: see Undo
//	idempotent-replayed    answer    true on a replay
//	idempotency-retention  answer    for how many seconds after its execution the answer is replayed
//
// [once.Operation].Name is the full method, such as /payments.v1.Refunds/CreateRefund.
//
// After the retention an answer is forgotten, and a retry would execute again. A retry that
// carries once-first-sent receives STALE instead, and so does one with an old key under
// [Config].KeyTime.
//
// The same key with another request is refused. Requests are compared in the form that
// [proto.MarshalOptions] calls deterministic: after an upgrade of the protobuf module of
// a server it could, in principle, differ, and then a retry across the upgrade would be
// refused, not executed.
//
// # Undo
//
// A service that takes part in the saga of another one has a method that undoes another method: it is [once.Undo] over gRPC.
// [Config].Undoes names both. A call of it names in once-undoes the key of a call of the other method, which may not have arrived yet. If that call was
// executed, the handler runs once, and [Undone] is the answer of that call; the status is "undone". If not, the answer is an empty message with the
// status "nothing", and a call that comes late receives UNDONE. While the call runs the undo receives IN_FLIGHT. An idempotency-key of the
// undo is ignored.
//
// # Errors
//
// Errors of the engine carry a google.rpc.ErrorInfo with domain oncelib.dev and the
// metadata retryable and safe_new_key (see package oncehttp), and a google.rpc.RetryInfo.
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
// Calls with a key, by [WithKey], in their metadata or by [ClientConfig].Keys, and calls
// that are declared to be harmless. Others are made once, and a [retry.Error] says that a
// key was missing.
//
//	Unavailable, DeadlineExceeded, Internal, Unknown, Canceled by the server   again
//	IN_FLIGHT                                      again; it costs three tenths of a retry
//	ResourceExhausted with a RetryInfo             again, not earlier than that says
//	grpc-retry-pushback-ms                         not earlier; negative: final
//	idempotent-replayed, with an error             final: the key has that answer for good
//	anything else                                  final
//
// Errors of the server's engine come back as [once.Error], and errors of the retry loop as
// [retry.Error]; [status.Code] sees through both. Budgets are per target of the connection.
// gRPC has a retry policy of its own in service configs: [grpc.WithDisableRetry] leaves
// the counting to one of the two.
package oncegrpc
