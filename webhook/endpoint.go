package webhook

import (
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// Endpoint is a URL of a tenant to which events are sent.
type Endpoint struct {
	ID     string // ep_...; a new one gets one
	Tenant string
	URL    string

	// Types are the types of events that the endpoint wants: "refund.succeeded", "refund.*" for each type that begins with "refund.", or "*" for
	// every type, future ones included.
	Types []string

	Description string
	Headers     map[string]string // added to each request; names with webhook- are refused

	Ordered     bool    // one delivery at a time, in the order of events; a failing delivery blocks the later ones
	Rate        float64 // deliveries per second; 0 means no limit
	Concurrency int     // deliveries at a time, at most 128; 0 means the relay's default

	// Secret is the secret of an endpoint that is created: "whsec_" and base64 for signatures v1, or "whsk_" for v1a. Default: a new secret from
	// [NewSecret]. It is never read from the database.
	Secret string

	// PublicKey is "whpk_" and base64. Receivers verify v1a signatures with it. It is set only if the secret is a private key. It is read, and never
	// set.
	PublicKey string

	DisabledAt time.Time // zero while the endpoint is enabled
	DisabledBy Disabled

	OldSecretUntil time.Time // until then requests carry a second signature, with the previous secret; zero means no overlap
	CreatedAt      time.Time
	Version        int64 // grows with each change
}

// Disabled says which person or failure has disabled an endpoint.
type Disabled string

const (
	DisabledByPerson  Disabled = "person"
	DisabledByGone    Disabled = "gone"    // it has answered 410
	DisabledByFailing Disabled = "failing" // it has failed for too long
)

// Event is an event of a tenant. Each endpoint of the tenant that wants its type gets it.
type Event struct {
	ID     string // the header webhook-id of all deliveries. Default: a new one, which begins with msg_
	Tenant string
	Type   string // such as "refund.succeeded"
	Data   []byte // the body of each request, as it is
}

// Cause is why a delivery was attempted.
type Cause string

const (
	CauseSchedule Cause = ""        // its time has come
	CauseResend   Cause = "resend"  // a person called Resend
	CauseRecover  Cause = "recover" // a person called Recover
	CauseReplay   Cause = "replay"  // a person called Replay
	CauseTest     Cause = "test"
)

// Attempt is one request to an endpoint.
type Attempt struct {
	At       time.Time
	Duration time.Duration
	Status   int    // of the answer; 0 means no answer
	Error    string // a class, such as "timeout"; "" means no error
	Size     int64  // of the answer's body, as far as it was read
	Answer   []byte // its beginning
	Host     string // of the URL, if there was an answer
	Cause    Cause
}

// endpointColumns are what [scanEndpoint] reads of an endpoint e.
const endpointColumns = "e.id, e.uid, e.part, e.tenant, e.url, e.types, e.description, e.headers, e.secret_old_until, e.encrypted, e.ordered, e.rate, e.concurrency," +
	" e.disabled_at, e.disabled_by, e.created_at, e.version, e.secret"

// endpointRow is an endpoint as it is stored.
type endpointRow struct {
	Endpoint

	id        int64
	part      int
	types     string // column
	headers   []byte
	secret    []byte
	encrypted bool
}

func scanEndpoint(row sqlplane.Row) (e endpointRow, err error) {
	err = row.Scan(&e.id, &e.ID, &e.part, &e.Tenant, &e.URL, &e.types, &e.Description, &e.headers, (*dialect.Time)(&e.OldSecretUntil), &e.encrypted, &e.Ordered, &e.Rate,
		&e.Concurrency, (*dialect.Time)(&e.DisabledAt), (*string)(&e.DisabledBy), (*dialect.Time)(&e.CreatedAt), &e.Version, &e.secret)
	e.Types = strings.Fields(e.types)
	return e, err
}

// open decrypts the headers, and finds the public key.
func (e *endpointRow) open(c *Config) error {
	headers, err := c.open(e.headers, e.encrypted, headersLabel(e.ID))
	if err == nil {
		e.Headers, err = seal.DecodeHeaders(headers)
	}
	if err != nil {
		return fmt.Errorf("webhook: the headers of endpoint %s: %w", e.ID, err)
	}
	secret, err := c.open(e.secret, e.encrypted, secretLabel(e.ID))
	if err != nil {
		return fmt.Errorf("webhook: the secret of endpoint %s: %w", e.ID, err)
	}
	e.PublicKey = publicKeyOf(string(secret))
	return nil
}
