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
	ignored   = &cause{"ignored", Violation, "commit the key, the effect and the answer in one transaction, and look up the key before the handler does any work"}
	refused   = &cause{"refused", Deviation, "store the answer under the key, and send this answer to each retry: a client that has lost the answer cannot get the answer in another way"}
	race      = &cause{"race", Violation, "insert the key under a unique constraint before the effect, in the transaction of the effect; a look-up alone does not stop two requests that arrive at the same time"}
	shared    = &cause{"shared", Violation, "compare the whole key, byte by byte, together with the caller: two different keys belong to two operations"}
	forgotten = &cause{"forgotten", Violation, "keep each key for at least 24 hours: a later key must not replace an earlier key"}
	mismatch  = &cause{"mismatch", Violation, "store a hash of the request with the key, and refuse a different request with this key (422, or 400 as Stripe does)"}
	unkept    = &cause{"unkept", Violation, "do not change the stored record of a key when the API refuses a different request with this key"}
	truncated = &cause{"truncated", Violation, "refuse a key that is too long with 400, and do not shorten the key"}
	folded    = &cause{"folded", Violation, "compare keys byte by byte, for example with a binary collation for the column"}
	leaked    = &cause{"leaked", Violation, "look up the key together with the authenticated caller"}
	stuck     = &cause{"stuck", Violation, "hold the key with a transaction, or with a lease that the process renews: then the key becomes free when its request fails or its client disconnects"}
	halfBody  = &cause{"half-body", Violation, "read the whole body before the handler claims the key, and store nothing if the body was cut off"}
	cut       = &cause{"cut", Violation, "commit the key together with the effect, and complete both or roll both back when the client disconnects"}
	slow      = &cause{"slow", Violation, "insert the key under a unique constraint in the transaction of the effect, after the handler has read the body"}
	headers   = &cause{"headers", Violation, "compare only the method, the path and the body of a retry with the first request: User-Agent, tracing headers and unknown headers change at each attempt"}
	later     = &cause{"later", Violation, "find the code that changes data after the answer, such as a task in the background"}
	lost      = &cause{"lost", Violation, "send a 2xx answer only after the commit of the effect"}

	status      = &cause{"status", Deviation, "store the status code of the answer, and send this status code to each retry"}
	header      = &cause{"header", Deviation, "store the headers of the answer, at least Location and Content-Type, and send these headers to each retry"}
	body        = &cause{"body", Deviation, "store the bytes of the answer, and do not build the answer again for a retry"}
	crash       = &cause{"crash", Deviation, "answer 400 if a key is not valid, and 409 if a request with the key is running: an answer 5xx would mean that the server has failed"}
	retryAfter  = &cause{"retry-after", Deviation, "add the header Retry-After, which tells clients when to retry"}
	inFlight    = &cause{"in-flight", Deviation, "answer 409 while the first request with the key is running"}
	picky       = &cause{"picky", Deviation, "compare only the method, the path and the body of a retry with the first request: User-Agent, tracing headers and unknown headers change at each attempt"}
	empty       = &cause{"empty", Deviation, "refuse an empty key with 400: a client with an empty key believes that the key protects the request"}
	corrected   = &cause{"corrected", Deviation, "if you store the failure of a request, also store the body of the request, and compare the body of each retry with the stored body"}
	seen        = &cause{"seen", Deviation, "look up the key together with the authenticated caller"}
	missing     = &cause{"missing", Note, "on routes that require a key, refuse a request without a key with 400"}
	malformed   = &cause{"malformed", Note, "refuse with 400 a key that is not a string in the format of structured fields (RFC 9651)"}
	twoLines    = &cause{"two-lines", Note, "refuse a request with two keys with 400"}
	long        = &cause{"long", Note, "accept keys of 255 characters, as Stripe does"}
	quoted      = &cause{"quoted", Note, "treat \"k\" and k as one key: clients of the IETF draft send quotation marks, and most other clients do not"}
	otherStatus = &cause{"status-of-mismatch", Note, "answer with the status that the preset requires"}
	problem     = &cause{"problem", Note, "answer with a body of application/problem+json (RFC 9457), which tells clients the reason of the refusal"}
	unchecked   = &cause{"unchecked", Note, "run the command again with the flag that the finding names"}
)
