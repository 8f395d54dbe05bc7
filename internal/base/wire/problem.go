package wire

import "strings"

// problemBase is the prefix of all problem types.
const problemBase = "https://oncelib.dev/problems/"

// ProblemType returns the URI of the type of a problem with one of our codes.
func ProblemType(code string) string { return problemBase + ProblemPath(code) }

// ProblemPath returns the end of this URI: conflict/idempotency/in-flight for CONFLICT.idempotency.in_flight.
func ProblemPath(code string) string { return slug.Replace(strings.ToLower(code)) }

var slug = strings.NewReplacer(".", "/", "_", "-")
