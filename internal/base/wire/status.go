package wire

// Values of the StatusHeader of an answer.
const (
	StatusStored    = "stored"     // a retry gets this answer again
	StatusOmitted   = "omitted"    // the answer is too large to be stored: a retry is refused and never executes
	StatusReplayed  = "replayed"   // it is the answer of an earlier request
	StatusNotStored = "not-stored" // nothing was applied, and a retry with the key executes
	StatusIgnored   = "ignored"    // there is no key, or the method is not keyed: a retry executes
	StatusUndone    = "undone"     // what the request undoes was executed, and is undone, by this or an earlier attempt
	StatusNothing   = "nothing"    // what the request undoes was not executed, and will not be any more
)
