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

// Config says how a route is protected. Only the field Principal is required.
type Config struct {
	// Principal returns the caller of a request: the tenant or account that was authenticated before this middleware. Each principal has its own
	// keys: the same key of two principals names two operations. If Principal returns "", the answer is 401 and nothing is stored. If Principal is
	// nil, the middleware panics at start-up; for an API that really has only one caller, write [SharedPrincipal]().
	Principal func(*http.Request) string

	// Route returns the name of the route. Keys are unique per principal and route: the same key on two routes names two operations. Default: the method
	// and the pattern of the route if the middleware is inside of the router, where [http.Request.Pattern] is set; otherwise the method and the path. If
	// you rename a route, keys that are stored under its old name are no longer found.
	//
	// Inside of [http.StripPrefix] the pattern is the pattern in the inner router, so requests under two prefixes share their keys. The path,
	// however, is compared as the client sent it. If one key is sent under both prefixes, the second request is therefore refused as a mismatch,
	// unless Route returns a different name for each prefix.
	//
	// The host is part of the route's name only if the pattern contains the host. The host is also not compared between two requests, because one
	// service may have many host names. If the middleware is around a router that serves several hosts, write
	//
	//	func(r *http.Request) string { return r.Method + " " + r.Host + r.URL.Path }
	Route func(*http.Request) string

	// Undoes is the name of another route, such as "POST /deposits", whose operations this route undoes. The name of a route is the result of Route. Set
	// all other fields to the same values as in the Config of the route that is undone. The section Undo of the package documentation explains routes
	// that undo. Default: "", the route undoes nothing.
	Undoes string

	// Preset is the dialect of the API: methods, headers, stored statuses and problems. Default: [DefaultPreset]().
	Preset *Preset

	// Optional accepts requests without a key. Such a request also runs in a transaction, but a retry of the request is executed again, and its
	// answer has "Idempotency-Status: ignored". Default: a request without a key is answered with 400.
	Optional bool

	// FormField is the name of a field of an HTML form, urlencoded or multipart. If no header has a key, the key is read from the form field that
	// FormField names. If the server fills the form field and the field is hidden, a form that an impatient user sends twice takes effect only one time.
	// Default: "", keys are not read from forms.
	FormField string

	// Key returns the key of a request. If Key is set, no key is read from the headers or from FormField. Key may read the body of the request. If Key
	// returns "", the request has no key. If Key returns an error, the answer is 400, and the client receives the text of the error. Default: the key is
	// read from the headers, then from FormField.
	Key func(*http.Request) (string, error)

	// KeyFormat is the form that keys must have. Default: any text of 1 to 255 bytes.
	KeyFormat KeyFormat

	// Compare chooses the parts of a request that must be the same as in the first request with the same key. Default: all parts except headers.
	Compare Compare

	// Wait is how long a duplicate request waits while another request with the same key is in flight; after this time the answer is 409. A waiting
	// request holds no database connection. The wait ends earlier if the time in the client's header X-Request-Timeout has passed. Default: 0, the
	// answer is 409 at once.
	Wait time.Duration

	// Retain is how long the answers of this route are kept and replayed; [once.Forever] means without end. Default: Preset.Retain, or, if
	// Preset.Retain is 0, the engine's Config.Retain.
	Retain time.Duration

	// KeyTime says that keys contain the time of the first attempt. If a request has no Once-First-Sent and its key is a UUID of version 7, the time
	// in the key counts as the time of the first attempt: see [once.Attempt]. If KeyTime is set, clients must make the key when they send the first
	// attempt, and not long before. For example, a form that stays open for days must not contain a key that was made when the form was opened.
	// Default: no time is read from keys.
	KeyTime bool

	// Optimistic sets [once.Operation].Optimistic: the handler begins before the database was asked whether the operation is done. If the operation is
	// done already, the handler is stopped at its first SQL statement. Use Optimistic only for handlers that do nothing outside of the transaction
	// before their first SQL statement. Optimistic has no effect on a request whose time of the first attempt is known, so do not combine Optimistic
	// with KeyTime.
	Optimistic bool

	// Isolation is the isolation level of this route's transactions. Default: the default of the database.
	Isolation store.Isolation

	// Timeouts are the time limits of this route's transactions. The Timeouts of a route override the Timeouts of the engine ([once.Config]).
	Timeouts store.Timeouts

	// MaxRequest is the largest accepted request body, in bytes. A request with a larger body is answered with 413 and not executed. Default: 1 MiB.
	MaxRequest int64

	// MaxMemory is the largest request body that is held in memory, in bytes. A longer body, up to MaxRequest, is written to a temporary file in
	// [os.TempDir]. The temporary file saves memory only if the directory [os.TempDir] is on a disk. The temporary file has no name, so it disappears
	// with the process (on Windows the file has a name until the end of the request). CaptureRequest, FormField and Preset.Body need the whole body in
	// memory. Default: MaxRequest.
	MaxMemory int64

	// MaxResponse is the largest answer, in bytes, that a handler may write; the answer is held in memory until the commit. If an answer is larger,
	// the handler's writes are rolled back and the client gets 500. Default: 8 MiB.
	MaxResponse int64

	// MaxStored is the largest answer that is stored, in bytes, including its headers. If an answer is larger, the handler's writes are committed, and
	// the answer is sent only one time, with "Idempotency-Status: omitted". If the answer was not stored because it is larger than MaxStored, a retry
	// gets 409 and is never executed. Default: 1 MiB.
	MaxStored int64

	// Headers are the names of answer headers that are stored in addition to Content-Type, Content-Encoding, Content-Language, Content-Disposition,
	// Content-Location, Location, ETag, Cache-Control, Last-Modified, Link, Vary, Allow and X-Content-Type-Options. Credentials (Set-Cookie,
	// Authorization, ...) and headers of one connection (Connection, Upgrade, ...) are never stored, even if Headers contains them. Default: no
	// further headers.
	Headers []string

	// Redact lists JSON Pointers (RFC 6901), such as "/card/token", to values of an answer's body that are not stored. The first answer contains all
	// values, also the values that Redact names. In a replay each redacted value is null, every other byte is as in the first answer, and the header
	// Idempotency-Redacted names the redacted values: "/card/token", "/cvc". If Redact is set, an answer whose body is not JSON is not stored: the
	// answer has "Idempotency-Status: omitted", as the comment of MaxStored explains. The handler of an undo gets the stored answer, without the
	// redacted values. Default: all values are stored.
	Redact []string

	// OnReplay is called before a stored answer is sent again. The parameter rec is the record of the operation, and OnReplay must not change rec.
	// OnReplay may add lines to the parameter header, and these lines are sent, too. If OnReplay adds a stored header, or a header of this package such
	// as Idempotency-Status, the added lines are ignored. OnReplay must be fast. OnReplay may be called for a client that has disconnected. Default:
	// nil, nothing is called.
	OnReplay func(r *http.Request, rec store.Record, header http.Header)

	// RequestID returns the request id that outer middleware has put into the context of the request. The engine's observer receives the result
	// of RequestID as [once.Attempt].RequestID. If the result is "", too long or not printable, the request id is read from the header
	// X-Request-Id. Default: the request id is read from the header X-Request-Id.
	RequestID func(context.Context) string

	// StatusURL returns the URL under which a client can read the state of an operation; [StatusHandler] serves this URL. Problems about an existing
	// operation have the result of StatusURL in their member status_url. Default: problems have no status_url.
	StatusURL func(r *http.Request, key string) string

	// Gate decides, before the body of a request is read, whether the request may be executed. A full gate still lets a replay pass if the key of the
	// replay is in a header. If the key is in the body, the gate cannot recognise a replay, and refuses the replay like new work. Default: nil, every
	// request is executed.
	Gate Gate

	// Quota limits the bytes that are stored for each principal. Default: nil, no limit.
	Quota *limit.Quota

	// CaptureRequest stores the request with its operation, as it was sent but without credentials, so that [Resume] can execute it without the
	// client. The engine must have an Encrypter. Default: false, requests are not stored.
	CaptureRequest bool
}

// SharedPrincipal returns a Config.Principal that gives every request the same principal. Use SharedPrincipal only if the API has one client, or if
// all clients trust each other: every client that knows a key gets the answer that is stored under that key.
func SharedPrincipal() func(*http.Request) string {
	return func(*http.Request) string { return "global" }
}
