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
	ID     string // begins with "ep_"; Create chooses the ID
	Tenant string
	URL    string

	// Types are the types of events that the endpoint wants: "refund.succeeded", "refund.*" for each type that
	// begins with "refund.", or "*" for every type, including types that are added later.
	Types []string

	Description string
	Headers     map[string]string // headers of each request; names that begin with "webhook-" are refused

	Ordered     bool    // if Ordered is true, the endpoint gets one delivery at a time, in the order of events; a failing delivery blocks the later deliveries
	Rate        float64 // the largest number of deliveries per second; 0 means no limit
	Concurrency int     // the largest number of concurrent deliveries, at most 128; 0 means RelayConfig.Concurrency

	// Secret is the secret with which requests are signed. Set Secret only in an endpoint that you create. Secret
	// begins with "whsec_" for signatures of version v1, or with "whsk_" for signatures of version v1a; the rest
	// of Secret is base64. Default: a new secret from [NewSecret]. The field Secret is empty in an endpoint that
	// was read from the database.
	Secret string

	// PublicKey is the key with which receivers verify v1a signatures. PublicKey begins with "whpk_"; the rest
	// of PublicKey is base64. PublicKey is set only if the secret is a private key, and only in an endpoint that
	// was read from the database.
	PublicKey string

	DisabledAt time.Time // zero while the endpoint is enabled
	DisabledBy Disabled

	OldSecretUntil time.Time // until this time, requests carry a second signature, with the previous secret; zero means that there is no second signature
	CreatedAt      time.Time
	Version        int64 // grows with each change
}

// Disabled says whether a person or a failure has disabled an endpoint.
type Disabled string

const (
	DisabledByPerson  Disabled = "person"
	DisabledByGone    Disabled = "gone"    // the endpoint has answered 410
	DisabledByFailing Disabled = "failing" // the endpoint has failed for too long: see RelayConfig.DisableAfter
)

// Event is an event of a tenant. An event is delivered to each endpoint that belongs to the same tenant and wants
// the type of the event.
type Event struct {
	ID     string // the header webhook-id of all deliveries; default: a new ID, which begins with "msg_"
	Tenant string
	Type   string // such as "refund.succeeded"
	Data   []byte // the body of each request; it is sent unchanged
}

// Cause is the reason why a delivery was attempted.
type Cause string

const (
	CauseSchedule Cause = ""        // the schedule: the delivery was attempted because it was due
	CauseResend   Cause = "resend"  // a person has called [Endpoints.Resend]
	CauseRecover  Cause = "recover" // a person has called [Endpoints.Recover]
	CauseReplay   Cause = "replay"  // a person has called [Endpoints.Replay]
	CauseTest     Cause = "test"
)

// Attempt is one request to an endpoint.
type Attempt struct {
	At       time.Time
	Duration time.Duration
	Status   int    // the HTTP status of the answer; 0 means that no answer was received
	Error    string // the class of the error, such as "timeout"; "" means that there was no error
	Size     int64  // how many bytes of the answer's body were read
	Answer   []byte // the beginning of the answer's body
	Host     string // the host of the URL, if an answer was received
	Cause    Cause
}

// endpointColumns are the columns that [scanEndpoint] reads of an endpoint e.
const endpointColumns = "e.id, e.uid, e.part, e.tenant, e.url, e.types, e.description, e.headers, e.secret_old_until, e.encrypted, e.ordered, e.rate, e.concurrency," +
	" e.disabled_at, e.disabled_by, e.created_at, e.version, e.secret"

// endpointRow is an endpoint as the database stores it.
type endpointRow struct {
	Endpoint

	id        int64
	part      int
	types     string // the types as the column stores them
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

// open decrypts the headers, and derives the public key from the secret.
func (e *endpointRow) open(c *Config) error {
	headers, err := c.open(e.headers, e.encrypted, headersLabel(e.ID))
	if err == nil {
		e.Headers, err = seal.DecodeHeaders(headers)
	}
	if err != nil {
		return fmt.Errorf("webhook: the stored headers of endpoint %s cannot be read: %w", e.ID, err)
	}
	secret, err := c.open(e.secret, e.encrypted, secretLabel(e.ID))
	if err != nil {
		return fmt.Errorf("webhook: the stored secret of endpoint %s cannot be read: %w", e.ID, err)
	}
	e.PublicKey = publicKeyOf(string(secret))
	return nil
}
