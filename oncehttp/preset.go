package oncehttp

import (
	"net/http"
	"time"

	"github.com/oncelib/once/internal/base/wire"
)

// Verdict is what becomes of a request whose handler has answered.
type Verdict uint8

const (
	VerdictDiscard    Verdict = iota // roll back and store nothing: a retry executes
	VerdictAnswerOnly                // roll back, then store the answer: a retry replays it
	VerdictCommit                    // commit the handler's writes and the answer together
)

// Preset is a dialect: everything in which APIs with idempotency keys differ, as
// data. Take [DefaultPreset], or one of the packages oncehttp/stripe and oncehttp/refundplaybook, and
// change what differs.
type Preset struct {
	// Name of the dialect, for documentation.
	Name string

	// Methods whose requests carry a key. HEAD, OPTIONS, TRACE and CONNECT
	// cannot be among them.
	Methods []string

	// KeyHeaders are the request headers that carry the key, the documented name
	// first. None: keys come from Config.FormField or Config.Key alone.
	KeyHeaders []string

	// QuotedKeys accepts the quoted form of a key header only: "8e03978e", not 8e03978e.
	// Default: both, as names of the same key.
	QuotedKeys bool

	// OpaqueKeys takes the value of a key header for the key as it is, quotation marks
	// and all; QuotedKeys has no effect. Default: "key" and key are the same, see the
	// package documentation.
	OpaqueKeys bool

	// Verdicts by status of the handler's answer: 200 to 999, or 2 to 9 for a
	// class whose status is not listed itself. [VerdictDiscard] is the rest.
	Verdicts map[int]Verdict

	// Problems are the codes (such as [ProblemMismatch]) whose status differs from
	// that in the package's table.
	Problems map[ProblemCode]int

	// Codes are the names of those codes of this package that the dialect calls
	// something else.
	Codes map[ProblemCode]ProblemCode

	// ProblemBase is what the types of problems of this package begin with, such as "https://api.example.com/problems/", where
	// [ProblemPages] serves their pages. Default: "https://oncelib.dev/problems/".
	ProblemBase string

	// These are the names of headers in which the answer says something about itself.
	// "": it does not.
	StatusHeader    string // "stored", "omitted", "replayed", "not-stored" or "ignored"
	ReplayedHeader  string // "true", on a replay only
	RetentionHeader string // for how many seconds after its execution an answer is replayed
	KeyHeader       string // the key
	RetryHeader     string // "false" on an error that is stored: a retry would get it again; on a problem Problem.Retryable

	// Retain is how long answers are kept unless Config.Retain says otherwise.
	// Default: the engine's.
	Retain time.Duration

	// Route is the part of the scope that follows the principal unless
	// Config.Route says otherwise. Default: see there.
	Route func(*http.Request) string

	// Scope says in words what a key is unique within, for documentation. Default:
	// "caller" and "route", or "custom" if there is a Route.
	Scope []string

	// Body returns what of a body is compared when a key comes again. Default: all
	// bytes as they are. Package oncehttp/canonical has two. It is not asked about multipart bodies, of which all but the
	// boundary is compared, since clients draw a new one for each try; nor about a
	// form that middleware outside has parsed, which is compared by its values.
	Body func(contentType string, body []byte) []byte

	// Challenge is the WWW-Authenticate of our own 401, which every 401 must have, unless the
	// header is set already. Default: Bearer.
	Challenge string

	// WriteProblem sends an error. Default: [WriteProblem].
	WriteProblem func(http.ResponseWriter, Problem)
}

// DefaultPreset returns the preset that is used if none is configured: POST and PATCH;
// 2xx, 3xx and definitive 4xx are stored, the writes of a 4xx are not kept. A status
// that says "not now" or "not you" (401, 403, 408, 409, 423, 425, 429, 5xx) is never
// stored.
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
