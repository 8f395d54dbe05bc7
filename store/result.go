package store

// Result is the stored answer of an operation; a replay returns it.
type Result struct {
	Kind   ResultKind
	Status int     // HTTP status; 0 for an operation that is a Go function
	Header []Field // in the order in which the lines are sent
	Body   []byte

	// RolledBack says that the writes of the handler were rolled back before the result was stored.
	RolledBack bool

	// Events are the IDs of the messages that the operation has added to an outbox in its transaction. If the
	// operation has added more than 64 messages, Events has the first 64 IDs.
	Events []string
}

// ResultKind says how to read Result.Body. The database stores the numeric values of the constants, so the
// values never change.
type ResultKind uint8

const (
	ResultValue   ResultKind = iota // the operation's value or response
	ResultFailure                   // a final failure, as JSON
	ResultOmitted                   // the operation is done, but its result was too large to be kept, or was forgotten
)

// Field is one header line.
type Field struct{ Name, Value string }
