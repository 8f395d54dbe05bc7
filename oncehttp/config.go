package oncehttp

import (
	"context"
	"net/http"
	"time"

	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
)

// Defaults of [Config], in bytes.
const (
	defaultMaxRequest  = 1 << 20
	defaultMaxResponse = 8 << 20
	defaultMaxStored   = 1 << 20
)

// Config says how a route is protected. Only Principal must be set.
type Config struct {
	// Principal returns who asks: the tenant or account that authentication, which
	// comes before this middleware, has established. Keys of different principals
	// never meet. "" is answered with 401, and nothing is stored. nil is a panic at
	// start-up; where there is really only one caller, write [SharedPrincipal]().
	Principal func(*http.Request) string

	// Route returns what the key is unique within, for one principal. Default:
	// method and pattern of the route, if [http.Request.Pattern] is known here
	// (the middleware is inside of the router), otherwise method and path. Another
	// name for a route makes the keys unknown that are stored under the first one.
	//
	// Behind [http.StripPrefix] the pattern is that of the inner router, so that two prefixes
	// share their keys. The path that was sent is compared: one key under both prefixes is
	// refused as a mismatch, unless Route names them apart.
	//
	// The host counts only as far as it is in the pattern: it is not compared either,
	// since one service has many names. Around a router that serves several hosts, write
	//
	//	func(r *http.Request) string { return r.Method + " " + r.Host + r.URL.Path }
	Route func(*http.Request) string

	// Undoes makes this a route that undoes what another one has done, and names that: it is what the scope of its operations has
	// behind the principal, such as "POST /deposits". The rest of the Config is that of the other route. See the package documentation.
	// Default: none.
	Undoes string

	// Preset is the dialect. Default: [DefaultPreset]().
	Preset *Preset

	// Optional lets requests without a key through. They run in a transaction as
	// well, but a retry of them executes again, and the answer says
	// "Idempotency-Status: ignored". Default: 400.
	Optional bool

	// FormField is the field of an HTML form, urlencoded or multipart, that holds
	// the key if no header does: a hidden field makes a form that is sent twice by
	// an impatient finger take effect once. Default: none.
	FormField string

	// Key replaces headers and FormField as the source of the key. The request has
	// its body. "" means that there is no key; an error is answered with 400, and
	// its text goes to the client. Default: headers, then FormField.
	Key func(*http.Request) (string, error)

	// KeyFormat is the form that keys must have. Default: 1 to 255 bytes of text.
	KeyFormat KeyFormat

	// Compare says what makes two requests with one key the same request. Default: everything that a client sends but its headers.
	Compare Compare

	// Wait is how long a duplicate waits for the request in flight before it is
	// told 409. Waiting holds no connection of the database. It ends with the
	// client's budget, if that is shorter. Default: 409 at once.
	Wait time.Duration

	// Retain is for how long the answers of this route are replayed; [once.Forever]
	// does not end. Default: the preset's, then the engine's.
	Retain time.Duration

	// KeyTime takes the moment in a key that is a UUID of version 7 for the one at which
	// the client has sent the operation first, unless Once-First-Sent says it: see
	// [once.Attempt]. A key must then not be made long before it is used, as that of a
	// form that is open for days is. Default: keys are opaque.
	KeyTime bool

	// Optimistic is that of [once.Operation]: the handler begins before the database was asked whether the operation is done, and a replay that was not
	// foreseen stops at its first statement. It is for handlers that do nothing outside of the transaction before that. It has no effect on requests
	// that say when they were sent first, so none with KeyTime.
	Optimistic bool

	// Isolation of the transactions of this route. Default: the database's.
	Isolation store.Isolation

	// Timeouts of the transactions of this route, which go before those of the engine.
	Timeouts store.Timeouts

	// MaxRequest is the largest body that is read. Beyond: 413, not executed.
	// Default 1 MiB.
	MaxRequest int64

	// MaxMemory is the largest body that is held in memory. A longer one, up to MaxRequest, is in a file
	// without a name in [os.TempDir], which must be a disk to save memory (on Windows the file has its name until the
	// request is over). CaptureRequest, FormField and Preset.Body need the whole body in memory.
	// Default: MaxRequest.
	MaxMemory int64

	// MaxResponse is the largest answer that is held in memory until the commit.
	// Beyond: rolled back, 500. Default 8 MiB.
	MaxResponse int64

	// MaxStored is the largest answer, headers included, that is stored. Beyond:
	// committed and answered once, with "Idempotency-Status: omitted"; a retry is told
	// 409 and never executes.
	// Default 1 MiB.
	MaxStored int64

	// Headers of the answer to store beside Content-Type, Content-Encoding,
	// Content-Language, Content-Disposition, Content-Location, Location, ETag,
	// Cache-Control, Last-Modified, Link, Vary, Allow and X-Content-Type-Options.
	// Credentials (Set-Cookie, Authorization, ...) and what belongs to a connection
	// (Connection, Upgrade, ...) are never stored, also if they are listed here.
	// Default: none.
	Headers []string

	// Redact are JSON Pointers (RFC 6901) to values of answers that are not stored, such as "/card/token". The first answer has them.
	// On a replay each of them is null, every other byte is that of the first answer, and the header Idempotency-Redacted names them:
	// "/card/token", "/cvc". An answer with a body that is not JSON is not stored at all: it is "omitted", see MaxStored. Headers that
	// must not be stored need no entry: those are stored that Headers has. An undo gets the answer as it is stored. Default: none.
	Redact []string

	// OnReplay is called before a stored answer is sent again. rec is the record of the operation, and must not be changed. Header lines that it
	// puts into header are sent as well, except those that belong to the answer: what is stored, and what the answer says about
	// itself. It must be fast, and it may be called for a client that has gone. Default: nothing.
	OnReplay func(r *http.Request, rec store.Record, header http.Header)

	// RequestID returns the id of a request that middleware outside has put into its context, for the observer: [once.Attempt]. "", or what is
	// not short and printable: that of the header X-Request-Id. Default: that of the header.
	RequestID func(context.Context) string

	// StatusURL returns where the state of an operation can be seen, for the
	// status_url of problems about an operation that exists. [StatusHandler] serves it. Default: none.
	StatusURL func(r *http.Request, key string) string

	// Gate is asked before an operation is executed, and before its body is read. It
	// lets replays pass where it sheds new work, but only if the key is in a header: one
	// that FormField or Key finds is not known yet, and its replay is shed like new work.
	// Default: whatever comes is executed.
	Gate Gate

	// Quota bounds what each principal has stored. Default: nothing does.
	Quota *limit.Quota

	// CaptureRequest keeps the request with the operation, as it came over the
	// wire but without its credentials, if the engine has an Encrypter. Default: no.
	CaptureRequest bool
}

// SharedPrincipal returns the principal of an API that has only one, or whose clients all
// trust each other: a client that knows a key gets the answer that is stored under it.
func SharedPrincipal() func(*http.Request) string {
	return func(*http.Request) string { return "global" }
}
