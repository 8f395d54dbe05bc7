// Package onceconnect makes unary RPCs of connect-go take effect once per idempotency key:
// the handler's writes, the key and the answer are one commit, and a retry gets that
// answer again, over the Connect, gRPC and gRPC-Web protocols alike.
//
//	path, handler := paymentsv1connect.NewRefundsHandler(service, connect.WithInterceptors(
//		onceconnect.NewInterceptor(engine, onceconnect.Config{Principal: account})))
//
//	func (s *service) CreateRefund(ctx context.Context, req *pb.CreateRefundRequest) (*pb.Refund, error) {
//		tx := onceconnect.Tx[pgx.Tx](ctx)
//		... write through tx, return as usual ...
//	}
//
// and the other half, a client that retries with the same key:
//
//	client := paymentsv1connect.NewRefundsClient(http.DefaultClient, url, connect.WithInterceptors(
//		onceconnect.NewClientInterceptor(onceconnect.ClientConfig{})))
//
//	ctx = onceconnect.WithKey(ctx, once.NewKey()) // one per intent
//	refund, err := client.CreateRefund(ctx, req)
//
// Do not wrap the middleware of package oncehttp around a Connect handler instead: it
// answers errors in a form that RPC clients do not understand, and cannot see the status
// of a gRPC answer, which is in its trailer.
//
// # Which calls
//
// All unary calls, except calls that the .proto file declares to be harmless with
// idempotency_level NO_SIDE_EFFECTS or IDEMPOTENT, and calls of the services that come
// with gRPC (health). Streams are not protected.
//
// # Rules for handlers
//
// It can run more than once before one run commits. Authentication comes before this
// interceptor, further to the left or as HTTP middleware, and decides for each call.
//
// A message commits. invalid_argument, not_found, already_exists, failed_precondition and
// out_of_range are final: the writes are rolled back and the error, details included, is
// stored and replayed. After any other error nothing is stored and a retry executes. An
// error that is no [connect.Error], such as one of the database, is best returned as it is:
// after a serialization failure or a deadlock the handler runs again, and the client does
// not see its text.
//
// The message or the error of an answer is stored; its headers and trailers are not.
// A message of more than [Config].MaxStored (1 MiB) is committed and answered once, and no
// retry gets it again: a retry receives RESULT_UNAVAILABLE, and does not execute.
//
// # Headers
//
//	Idempotency-Key        request   "key" or key, as in package oncehttp
//	Once-Attempt           request   1 for the first attempt, 2 for the next, ...; 1 saves a look-up
//	                                 (Grpc-Previous-Rpc-Attempts, of a gRPC client with a retryPolicy, is added)
//	Once-First-Sent        request   when that was, on every attempt alike: 1767225600000 (milliseconds since 1970), 2026-01-01T00:00:00Z
//	Once-Undoes            request   in place of Idempotency-Key where a call undoes another one: the key of that
//	Traceparent            request   W3C Trace Context: [once.Operation].Trace; a malformed one is ignored
//	Idempotency-Status     answer    stored, replayed, or ignored (a retry executes again); undone, nothing: see Undo
//	Idempotent-Replayed    answer    true on a replay
//	Idempotency-Retention  answer    for how many seconds after its execution the answer is replayed
//
// [once.Operation].Name is the procedure, such as /payments.v1.Refunds/CreateRefund.
//
// After the retention an answer is forgotten, and a retry would execute again. A retry that
// carries Once-First-Sent receives STALE instead, and so does one with an old key under
// [Config].KeyTime.
//
// The same key with another request is refused. Requests are compared in the form that
// [proto.MarshalOptions] calls deterministic: after an upgrade of the protobuf module of
// a server it could, in principle, differ, and then a retry across the upgrade would be
// refused, not executed.
//
// # Undo
//
// A service that takes part in the saga of another one has a method that undoes another method: it is [once.Undo] over Connect.
// [Config].Undoes names both. A call of it names in Once-Undoes the key of a call of the other method, which may not have arrived yet. If that call was
// executed, the handler runs once, and [Undone] is the answer of that call; the status is "undone". If not, the answer is an empty message with the
// status "nothing", and a call that comes late receives UNDONE. While the call runs the undo receives IN_FLIGHT. An Idempotency-Key of the
// undo is ignored.
//
// # Errors
//
// Errors of the engine carry a google.rpc.ErrorInfo with domain oncelib.dev and the
// metadata retryable and safe_new_key (see package oncehttp), and a google.rpc.RetryInfo.
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
// Calls with a key, by [WithKey], in their header or by [ClientConfig].Keys, and calls that
// are declared to be harmless. Others are made once, and a [retry.Error] says that a key
// was missing.
//
//	unavailable, deadline_exceeded, internal, unknown, canceled by the server   again
//	IN_FLIGHT                                      again; it costs three tenths of a retry
//	resource_exhausted with a RetryInfo            again, not earlier than that says
//	Idempotent-Replayed, with an error             final: the key has that answer for good
//	anything else                                  final
//
// Errors of the server's engine come back as [once.Error], and errors of the retry loop as
// [retry.Error]; [connect.CodeOf] sees through both. Budgets are per host. The name of
// the key's header is spelt in lower case, so that net/http does not repeat the request
// by itself.
package onceconnect
