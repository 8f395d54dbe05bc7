package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
	"github.com/oncelib/once/webhook/ssrf"
)

// Config configures [Hooks].
type Config struct {
	// Encrypter encrypts the secrets and headers of endpoints, the data of events, and the answers of
	// endpoints. Relays and the tools of operators need the same Encrypter.
	Encrypter once.Encrypter

	// PlainSecrets allows [New] to work without an Encrypter. Without an Encrypter, everyone who can read the
	// database can sign webhooks.
	PlainSecrets bool

	// Guard says to which addresses and ports webhooks may be sent. Default: https on port 443 of public
	// addresses.
	Guard *ssrf.Guard

	// MaxEndpoints is how many endpoints a tenant can have; the maximum is 1000. Default: 50.
	MaxEndpoints int

	// MaxData is the largest size of the data of an event, in bytes. Default: 256 kB.
	MaxData int

	// Retain is how long an event is kept, with its deliveries and attempts. After the time Retain, deliveries
	// that have stopped (all attempts have failed) are deleted, too. Retain must be longer than the sum of all
	// pauses in RelayConfig.Schedule, because a delivery is tried for as long as all these pauses together.
	// Default: 30 days.
	Retain time.Duration

	// Archive receives the events and attempts that [Hooks.Sweep] or a relay is about to delete because of their
	// age; for example, set Archive to the method Write of an archive.Writer. Archive receives the rows as they
	// are stored: encrypted columns stay encrypted. The rows are deleted only after Archive has returned nil, so
	// Archive may receive a row twice. Default: no archive.
	Archive func(ctx context.Context, rows []upkeep.Expired) error

	// ShowAnswersOf are the hosts whose answers a tenant may read. If a tenant could read the answers of every
	// host, the tenant could choose a host that only your network can reach, and read the answers of that host.
	// Default: no hosts; a tenant sees only the status and the size of answers.
	ShowAnswersOf []string

	// Trace returns the W3C traceparent of the context of Send, or "" if the context has no trace. The span of
	// each attempt links to the trace that Trace returns. You can use the function onceotel.Trace. Default: no
	// trace is stored.
	Trace func(context.Context) string
}

const (
	defaultMaxEndpoints = 50
	mostEndpoints       = 1000
	defaultMaxData      = 256 << 10
	defaultRetain       = 30 * 24 * time.Hour
)

// Hooks sends webhooks to the endpoints of tenants. The methods of Hooks can be called
// concurrently.
type Hooks[TX any] struct {
	db     sqlplane.SQL[TX]
	cfg    Config
	who    string       // for the audit: see By
	reason string       // the reason for the audit
	sent   *atomic.Bool // this process has stored deliveries since its relays last looked
}

// New returns the [Hooks] in the database of s. Run the migrations in [Migrations] in this database before you
// use the Hooks. New panics if cfg is invalid. New also panics if cfg.Encrypter is nil, unless cfg.PlainSecrets
// is set.
func New[TX any](s sqlplane.SQL[TX], cfg Config) *Hooks[TX] {
	cfg.MaxEndpoints = cmp.Or(cfg.MaxEndpoints, defaultMaxEndpoints)
	cfg.MaxData = cmp.Or(cfg.MaxData, defaultMaxData)
	cfg.Retain = cmp.Or(cfg.Retain, defaultRetain)
	if cfg.Guard == nil {
		cfg.Guard = &ssrf.Guard{}
	}
	if err := cfg.check(); err != nil {
		panic("webhook: New: " + err.Error())
	}
	return &Hooks[TX]{db: s, cfg: cfg, sent: new(atomic.Bool)}
}

func (c *Config) check() error {
	switch {
	case c.Encrypter == nil && !c.PlainSecrets:
		return errors.New("Config.Encrypter is not set, so the secrets would be stored as plain text, and each reader of the database could sign webhooks. Try: once.NewEncrypter, or Config.PlainSecrets if this is acceptable")
	case c.Encrypter != nil && c.PlainSecrets:
		return errors.New("Config.Encrypter and Config.PlainSecrets are both set. Try: set one of them")
	case c.MaxEndpoints < 0 || c.MaxEndpoints > mostEndpoints:
		return fmt.Errorf("Config.MaxEndpoints is %d, which is not allowed. Try: 1 to %d", c.MaxEndpoints, mostEndpoints)
	case c.MaxData < 0 || c.Retain < 0:
		return fmt.Errorf("Config.MaxData %d and Config.Retain %v must not be negative", c.MaxData, c.Retain)
	}
	return nil
}

// text returns a statement in the dialect of the database.
func (h *Hooks[TX]) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(h.db.Dialect(), query), Args: args}
}

// seal encrypts the content of a column, if an Encrypter is set. The label binds the content to its row and
// column, so that a copy in another row cannot be decrypted.
func (c *Config) seal(plain []byte, label string) ([]byte, error) {
	if c.Encrypter == nil {
		return append([]byte{}, plain...), nil // a copy, because the statement may run after the caller has changed the slice
	}
	return c.Encrypter.Encrypt(plain, []byte(label))
}

// open decrypts the result of seal.
func (c *Config) open(stored []byte, encrypted bool, label string) ([]byte, error) {
	if !encrypted {
		return stored, nil
	}
	if c.Encrypter == nil {
		return nil, errors.New("webhook: the stored data is encrypted, but Config.Encrypter is not set. Try: set the Encrypter with the key under which the data was stored")
	}
	return c.Encrypter.Decrypt(stored, []byte(label))
}

// Labels of the encrypted columns.
func secretLabel(endpoint string) string  { return "webhook/secret/" + endpoint }
func headersLabel(endpoint string) string { return "webhook/headers/" + endpoint }
func dataLabel(event string) string       { return "webhook/data/" + event }
func answerLabel(event string) string     { return "webhook/answer/" + event }

// parts is how many parts the endpoints have together. The number never changes, because relays of different
// releases share the parts.
const parts = 64

// partOf returns the part of an endpoint, by its UID. The result never changes between releases.
func partOf(endpoint string) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(endpoint) {
		h = (h ^ uint32(endpoint[i])) * 16777619
	}
	return int(h % parts)
}
