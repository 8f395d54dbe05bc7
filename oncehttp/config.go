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
	// Principal returns the caller: the tenant or account that authentication, which comes before this middleware, has established. Each principal
	// has keys of its own. "" is answered with 401, and nothing is stored. nil is a panic at start-up; if the API really has only one caller, write
	// [SharedPrincipal]().
	Principal func(*http.Request) string

	// Route returns the name of the route. Keys are unique per principal and route. Default: method and pattern of the route, if
	// [http.Request.Pattern] is known here (the middleware is inside of the router), otherwise method and path. If you rename a route, keys that are
	// stored under its old name are no longer found.
	//
	// Behind [http.StripPrefix] the pattern belongs to the inner router, so that two prefixes share their keys. The path is compared as it was sent:
	// one key under both prefixes is refused as a mismatch, unless Route gives them different names.
	//
	// The host counts only if it is in the pattern. It is not compared either, since one service has many names. Around a router that serves several
	// hosts, write
	//
	//	func(r *http.Request) string { return r.Method + " " + r.Host + r.URL.Path }
	Route func(*http.Request) string

	// Undoes makes this a route that undoes the operations of another route. It is the name of the other route: the part of the scope after the
	// principal, such as "POST /deposits". All other fields are the same as in the Config of the other route. See the package documentation. Default:
	// none.
	Undoes string

	// Preset is the dialect. Default: [DefaultPreset]().
	Preset *Preset

	// Optional lets requests without a key through. They run in a transaction as well, but a retry executes again, and the answer has
	// "Idempotency-Status: ignored". Default: 400.
	Optional bool

	// FormField is the field of an HTML form, urlencoded or multipart, that holds the key if no header does. With a hidden field, a form that an
	// impatient user sends twice takes effect once. Default: none.
	FormField string

	// Key replaces headers and FormField as the source of the key. The request has its body. "" means that the request has no key; an error is
	// answered with 400, and its text goes to the client. Default: headers, then FormField.
	Key func(*http.Request) (string, error)

	// KeyFormat is the form that keys must have. Default: 1 to 255 bytes of text.
	KeyFormat KeyFormat

	// Compare chooses the parts of a request that are compared with the first request of its key. Default: all parts except headers.
	Compare Compare

	// Wait is how long a duplicate waits for the request in flight before the answer is 409. A waiting request holds no connection of the database.
	// The wait ends early with the client's time, see X-Request-Timeout. Default: 409 at once.
	Wait time.Duration

	// Retain is how long the answers of this route are replayed; [once.Forever] means without end. Default: the preset's, then the engine's.
	Retain time.Duration

	// KeyTime reads the first sending time of an operation from a key that is a UUID of version 7, unless Once-First-Sent has it: see [once.Attempt].
	// A key must then be made when it is used, and not long before, as in a form that stays open for days. Default: keys are opaque.
	KeyTime bool

	// Optimistic sets [once.Operation].Optimistic: the handler begins before the database was asked whether the operation is done. An unexpected
	// replay stops the handler at its first statement. Use it for handlers that do nothing outside of the transaction before that. It has no effect
	// on requests with a first sending time, so with KeyTime it never has.
	Optimistic bool

	// Isolation of the transactions of this route. Default: the database's.
	Isolation store.Isolation

	// Timeouts of the transactions of this route. They override those of the engine.
	Timeouts store.Timeouts

	// MaxRequest is the largest body that is read. Beyond: 413, not executed.
	// Default 1 MiB.
	MaxRequest int64

	// MaxMemory is the largest body that is held in memory. A longer one, up to MaxRequest, is written to a file without a name in [os.TempDir],
	// which saves memory only if it is a disk (on Windows the file has a name until the end of the request). CaptureRequest, FormField and
	// Preset.Body need the whole body in memory. Default: MaxRequest.
	MaxMemory int64

	// MaxResponse is the largest answer that is held in memory until the commit. A larger one is rolled back and answered with 500. Default 8 MiB.
	MaxResponse int64

	// MaxStored is the largest answer, headers included, that is stored. The writes of a larger one are committed, and it is sent once, with
	// "Idempotency-Status: omitted"; a retry gets 409 and never executes. Default 1 MiB.
	MaxStored int64

	// Headers of the answer that are stored in addition to Content-Type, Content-Encoding, Content-Language, Content-Disposition, Content-Location,
	// Location, ETag, Cache-Control, Last-Modified, Link, Vary, Allow and X-Content-Type-Options. Credentials (Set-Cookie, Authorization, ...) and
	// headers of one connection (Connection, Upgrade, ...) are never stored, even if they are listed here. Default: none.
	Headers []string

	// Redact are JSON Pointers (RFC 6901) to values of answers that are not stored, such as "/card/token". The first answer has them. In a replay
	// each of them is null, every other byte is as in the first answer, and the header Idempotency-Redacted names them: "/card/token", "/cvc". An
	// answer with a body that is not JSON is not stored at all: it is "omitted", see MaxStored. Headers need no entry here: only those in Headers are
	// stored. An undo gets the answer as it is stored. Default: none.
	Redact []string

	// OnReplay is called before a stored answer is sent again. rec is the record of the operation, and must not be changed. OnReplay may add lines to
	// header, which are sent as well, except lines of the answer itself: stored headers, and headers such as Idempotency-Status. It must be fast, and
	// it may be called for a client that has gone. Default: not called.
	OnReplay func(r *http.Request, rec store.Record, header http.Header)

	// RequestID returns the id that outer middleware has put into the context of the request, for the observer: [once.Attempt]. If it is "", too long
	// or not printable, the header X-Request-Id is used. Default: the header.
	RequestID func(context.Context) string

	// StatusURL returns the URL of the state of an operation, for the status_url of problems about an operation that exists. [StatusHandler] serves
	// it. Default: none.
	StatusURL func(r *http.Request, key string) string

	// Gate is asked before an operation is executed, and before its body is read. When it refuses new work, it still lets replays pass, but only if
	// the key is in a header: a key in the body is not known yet, so its replay is refused like new work. Default: every request is executed.
	Gate Gate

	// Quota bounds the stored bytes of each principal. Default: no bound.
	Quota *limit.Quota

	// CaptureRequest keeps the request with the operation, as it was sent, but without its credentials. The engine must have an Encrypter. Default:
	// no.
	CaptureRequest bool
}

// SharedPrincipal returns the principal of an API that has only one, or whose clients all trust each other: a client that knows a key gets the answer
// that is stored under it.
func SharedPrincipal() func(*http.Request) string {
	return func(*http.Request) string { return "global" }
}
