package oncehttp

import (
	"net/http"
	"time"

	"github.com/oncelib/once/internal/base/wire"
)

// Verdict says what happens to the transaction and to the answer after a handler has answered.
type Verdict uint8

const (
	VerdictDiscard    Verdict = iota // VerdictDiscard rolls back and stores nothing: a retry executes
	VerdictAnswerOnly                // VerdictAnswerOnly rolls back, then stores the answer: a retry replays the answer
	VerdictCommit                    // VerdictCommit commits the handler's writes and the answer together
)

// Preset is a dialect of APIs with idempotency keys, as data: the methods, headers, statuses and problems in which such APIs differ. Start with
// [DefaultPreset], or with the preset of package oncehttp/stripe or oncehttp/refundplaybook, and change the fields that differ.
type Preset struct {
	// Name is the name of the dialect, for documentation.
	Name string

	// Methods are the HTTP methods whose requests carry a key. Methods must not contain HEAD, OPTIONS, TRACE or CONNECT.
	Methods []string

	// KeyHeaders are the names of the request headers that carry the key; documentation shows only the first name. If KeyHeaders is empty, keys come
	// only from Config.FormField or Config.Key.
	KeyHeaders []string

	// QuotedKeys accepts a key header only in its quoted form: "8e03978e", not 8e03978e. Default: false, a key with quotation marks and a key
	// without quotation marks are accepted and mean the same key.
	QuotedKeys bool

	// OpaqueKeys makes the whole value of a key header the key, including quotation marks; QuotedKeys then has no effect. Default: false, "key" and
	// key are the same key, see the section Headers of the package documentation.
	OpaqueKeys bool

	// Verdicts maps the status of the handler's answer to a verdict: whether the writes are committed and the answer is stored. A key of the map is a
	// status (200 to 999) or a class (2 to 9); a class, such as 4 for 400 to 499, applies to its statuses that are not in the map themselves. For a
	// status that is not in Verdicts, the verdict is [VerdictDiscard].
	Verdicts map[int]Verdict

	// Problems changes the HTTP statuses of codes such as [ProblemMismatch]. A code that is not in the map has the status in the table of the
	// package documentation.
	Problems map[ProblemCode]int

	// Codes maps codes of this package to the names that the dialect uses instead. A code that is not in the map keeps its name.
	Codes map[ProblemCode]ProblemCode

	// ProblemBase is the beginning of the type URI of every problem of this package, such as "https://api.example.com/problems/". Serve
	// the pages of [ProblemPages] under ProblemBase. Default: "https://oncelib.dev/problems/".
	ProblemBase string

	// The fields StatusHeader to RetryHeader are the names of the answer headers that report how the request was handled. If a name is "", the
	// header is not sent.
	StatusHeader    string // the value of the header is "stored", "omitted", "replayed", "not-stored" or "ignored"
	ReplayedHeader  string // the value of the header is "true"; the header is sent on a replay only
	RetentionHeader string // the value of the header is the number of seconds after the execution for which the answer is replayed
	KeyHeader       string // the value of the header is the key of the request
	RetryHeader     string // the value of the header is "false" on a stored error, which a retry would get again; on a problem the value is Problem.Retryable

	// Retain is how long answers are kept if Config.Retain is 0. Default: the retention of the engine.
	Retain time.Duration

	// Route returns the name of the route. The scope of a key is the principal, followed by the name of the route. Preset.Route is used if Config.Route
	// is nil. Default: the default of Config.Route.
	Route func(*http.Request) string

	// Scope names, for documentation, the values that together with the key identify an operation. Default: "caller" and "route", or "custom" if Route
	// is set.
	Scope []string

	// Body returns the bytes that are compared, instead of the body of the request, if a key is used again. Default: all bytes of the body, as they are.
	// Package oncehttp/canonical has two functions that can be used as Body. Body is not called for multipart bodies: they are compared without their
	// boundary, because clients choose a new boundary for each attempt. Body is also not called for a form that outer middleware has parsed; a parsed
	// form is compared by its values.
	Body func(contentType string, body []byte) []byte

	// Challenge is the value of the header WWW-Authenticate in this package's 401, if no other middleware has set that header. HTTP requires the
	// header in every 401. Default: Bearer.
	Challenge string

	// WriteProblem sends a problem to the client. Default: the function [WriteProblem].
	WriteProblem func(http.ResponseWriter, Problem)
}

// DefaultPreset returns the preset that is used if Config.Preset is nil. Requests with POST and PATCH carry keys. Answers with a status 2xx, 3xx or
// definitive 4xx are stored; the writes of a 4xx are rolled back. An answer with a status that another attempt may change (401, 403, 408, 409, 423,
// 425, 429, 5xx) is never stored.
func DefaultPreset() *Preset {
	return &Preset{
		Name:       "default",
		Methods:    []string{http.MethodPost, http.MethodPatch},
		KeyHeaders: []string{wire.KeyHeader, "X-Idempotency-Key"},
		Verdicts: map[int]Verdict{
			2: VerdictCommit, 3: VerdictCommit, 4: VerdictAnswerOnly,
			401: VerdictDiscard, 403: VerdictDiscard, 408: VerdictDiscard, 409: VerdictDiscard, 423: VerdictDiscard, 425: VerdictDiscard, 429: VerdictDiscard,
		},
		StatusHeader:    wire.StatusHeader,
		ReplayedHeader:  wire.ReplayedHeader,
		RetentionHeader: wire.RetentionHeader,
	}
}
