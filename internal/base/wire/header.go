package wire

// Names of headers as net/http spells them.
const (
	KeyHeader       = "Idempotency-Key"
	AttemptHeader   = "Once-Attempt"
	FirstSentHeader = "Once-First-Sent"
	UndoesHeader    = "Once-Undoes"
	TimeoutHeader   = "X-Request-Timeout"
	TraceHeader     = "Traceparent"
	StatusHeader    = "Idempotency-Status"
	ReplayedHeader  = "Idempotent-Replayed"
	RetentionHeader = "Idempotency-Retention"
)
