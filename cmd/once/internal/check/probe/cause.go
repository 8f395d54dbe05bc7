package probe

// Level is how bad a finding is.
type Level string

// The levels.
const (
	Violation Level = "violation" // an effect that is doubled or lost, a key that is stuck, or the answer of another request
	Deviation Level = "deviation" // one effect, and an answer that misleads clients
	Note      Level = "note"      // what the preset asks for, and what clients may depend on
)

// cause is one mistake of a service. It is reported one time, even if several checks find it.
type cause struct {
	name  string
	level Level
	try   string
}

var (
	ignored   = &cause{"ignored", Violation, "commit the key, the effect and the answer in one transaction, and look for the key before anything else"}
	refused   = &cause{"refused", Deviation, "store the answer under the key, and give it to each retry: a client that has lost the answer can get it in no other way"}
	race      = &cause{"race", Violation, "insert the key under a unique constraint before the effect, in the transaction of the effect; a look-up alone is too early"}
	shared    = &cause{"shared", Violation, "look for the whole key, byte by byte, together with the caller; two keys are two operations"}
	forgotten = &cause{"forgotten", Violation, "keep each key for at least 24 hours; a later key must not replace it"}
	mismatch  = &cause{"mismatch", Violation, "store a hash of the request with the key, and refuse another request under it (422, or 400 as Stripe does)"}
	unkept    = &cause{"unkept", Violation, "leave what is stored under the key as it is when another request is refused"}
	truncated = &cause{"truncated", Violation, "refuse a key that is too long with 400; do not shorten it"}
	folded    = &cause{"folded", Violation, "compare keys byte by byte: a binary collation for the column"}
	leaked    = &cause{"leaked", Violation, "look for the key together with the authenticated caller"}
	stuck     = &cause{"stuck", Violation, "let the key go when its request fails or its client is gone: hold it by a transaction or by a lease that is renewed"}
	halfBody  = &cause{"half-body", Violation, "read the whole body before the key is taken, and store nothing for a body that was cut off"}
	cut       = &cause{"cut", Violation, "commit the key with the effect, and finish or roll back both when the client is gone"}
	slow      = &cause{"slow", Violation, "insert the key under a unique constraint in the transaction of the effect, after the body is read"}
	headers   = &cause{"headers", Violation, "compare method, path, and body; User-Agent, tracing and unknown headers change from attempt to attempt"}
	later     = &cause{"later", Violation, "look for what takes effect after the answer, such as a task in the background"}
	lost      = &cause{"lost", Violation, "answer 2xx only after the effect is committed"}

	status      = &cause{"status", Deviation, "store the status with the answer"}
	header      = &cause{"header", Deviation, "store the headers with the answer, Location and Content-Type at least"}
	body        = &cause{"body", Deviation, "store the bytes of the answer; do not make it anew for a retry"}
	crash       = &cause{"crash", Deviation, "answer what is wrong with a key by 400, and what is in flight by 409; 5xx says that a retry may help"}
	retryAfter  = &cause{"retry-after", Deviation, "a header Retry-After, so that clients neither hurry nor give up"}
	inFlight    = &cause{"in-flight", Deviation, "answer 409 while the first request with a key runs"}
	picky       = &cause{"picky", Deviation, "compare method, path, and body; User-Agent, tracing and unknown headers change from attempt to attempt"}
	empty       = &cause{"empty", Deviation, "refuse an empty key with 400: its client believes that it is protected"}
	corrected   = &cause{"corrected", Deviation, "compare the body also with that of a stored failure"}
	seen        = &cause{"seen", Deviation, "look for the key together with the authenticated caller"}
	missing     = &cause{"missing", Note, "refuse a request without a key with 400, where a key is required"}
	malformed   = &cause{"malformed", Note, "refuse a key that is not a string of structured fields (RFC 9651) with 400"}
	twoLines    = &cause{"two-lines", Note, "refuse a request with two keys with 400"}
	long        = &cause{"long", Note, "take keys of 255 characters, as Stripe does"}
	quoted      = &cause{"quoted", Note, "take \"k\" and k for one key: clients of the draft quote, and most others do not"}
	otherStatus = &cause{"status-of-mismatch", Note, "the status that the preset asks for"}
	problem     = &cause{"problem", Note, "a body of application/problem+json (RFC 9457), by which clients can tell refusals apart"}
	unchecked   = &cause{"unchecked", Note, "the flag that is named"}
)
