package store

// Result is the answer that a replay returns.
type Result struct {
	Kind   ResultKind
	Status int     // HTTP status; 0 for functions
	Header []Field // in the order in which they are sent
	Body   []byte

	// RolledBack says that the writes of the handler were undone before the result was stored.
	RolledBack bool

	// Events are IDs of messages that the operation has added to an outbox in its transaction, the first 64 of them.
	Events []string
}

// ResultKind says how to read Body. The numbers are stored: they never change.
type ResultKind uint8

const (
	ResultValue   ResultKind = iota // the operation's value or response
	ResultFailure                   // a final failure, as JSON
	ResultOmitted                   // done, but its result was too large to be kept, or was forgotten
)

// Field is one header line.
type Field struct{ Name, Value string }
