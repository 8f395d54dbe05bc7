package webhook

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Endpoints manages the endpoints of tenants, and the deliveries to these endpoints. The methods of Endpoints can
// be called concurrently. An error that is neither an error of this package nor a [store.Error] is an error of
// the Encrypter. After a [store.Error] of the kind [store.KindLost], it is not known whether the change was made.
type Endpoints struct {
	db          sqlplane.Database
	cfg         *Config
	who, reason string
	note        func()
}

// Endpoints returns the object that manages the endpoints of all tenants.
func (h *Hooks[TX]) Endpoints() *Endpoints {
	return &Endpoints{db: h.db, cfg: &h.cfg, who: h.who, reason: h.reason, note: h.note}
}

// By returns a copy of h for changes by a person or a service with the name who. If you change data through the
// Endpoints of the copy, or through the method Forget of the copy, an entry with who and reason is written to the
// audit (the table once_audit). The entry in the audit commits in the same transaction as the change. The
// database needs the tables of operate.Migrations. Without By, nothing is written to the audit.
func (h *Hooks[TX]) By(who, reason string) *Hooks[TX] {
	audited := *h
	audited.who, audited.reason = who, reason
	return &audited
}

// Create stores an endpoint, and returns the endpoint and its secret. No method returns the secret of an endpoint
// a second time. To create an endpoint that gets no events before a person enables the endpoint, set e.DisabledBy
// to [DisabledByPerson]. The error is [ErrInvalid], [ErrURL] or [ErrTooMany], or an error of the database.
func (es *Endpoints) Create(ctx context.Context, e Endpoint) (created Endpoint, secret string, err error) {
	err = checkTenant(e.Tenant)
	secret = cmp.Or(e.Secret, NewSecret())
	if err == nil {
		_, err = NewSigner(secret)
	}
	if err != nil {
		return Endpoint{}, "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if e, err = es.cfg.checkedEndpoint(ctx, e); err != nil {
		return Endpoint{}, "", err
	}
	// The caller cannot choose the ID. The secret is stored encrypted, and not in e.
	e.ID, e.Secret = newID("ep_"), ""
	var row endpointRow
	err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) error {
		// This statement locks the row of the tenant. Concurrent calls of Create wait for each other, so each
		// counts the endpoints of all others.
		if _, err := r.Exec(ctx, es.text("insert into once_webhook_tenant (tenant, changed) values (?, 1) UPSERT(tenant) changed = once_webhook_tenant.changed + 1", e.Tenant)); err != nil {
			return err
		}
		n := 0
		count := es.text("select count(*) from once_webhook_endpoint where tenant = ? and deleted_at is null", e.Tenant)
		if err := r.Query(ctx, count, func(row sqlplane.Row) error { return row.Scan(&n) }); err != nil {
			return err
		}
		if n >= es.cfg.MaxEndpoints {
			return fmt.Errorf("%w: there are %d. Try: delete an endpoint, or a larger Config.MaxEndpoints", ErrTooMany, n)
		}
		if err := es.insert(ctx, r, e, secret); err != nil {
			return err
		}
		if row, err = es.read(ctx, r, e.Tenant, e.ID); err != nil {
			return err
		}
		return es.audit(ctx, r, "create", e.Tenant, e.ID)
	})
	if err != nil {
		return Endpoint{}, "", err
	}
	return row.Endpoint, secret, nil
}

func (es *Endpoints) insert(ctx context.Context, r sqlplane.Runner, e Endpoint, secret string) error {
	s := sealed{Endpoint: e, secret: secret}
	headers, key, _, err := s.seal(es.cfg)
	if err != nil {
		return err
	}
	disabled, by := "null", Disabled("")
	if e.DisabledBy != "" {
		disabled, by = "NOW", DisabledByPerson
	}
	_, err = r.Exec(ctx, es.text(`insert into once_webhook_endpoint (uid, part, tenant, url, types, description, headers, secret, public_key, encrypted, ordered, rate, concurrency, disabled_at,
 disabled_by, created_at, version) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, `+disabled+`, ?, NOW, 1)`, e.ID, int64(partOf(e.ID)), e.Tenant, e.URL, column(e.Types), e.Description,
		headers, key, publicKeyOf(secret), es.cfg.Encrypter != nil, e.Ordered, e.Rate, int64(e.Concurrency), string(by)))
	return err
}

// Get returns an endpoint of a tenant, or [ErrNotFound].
func (es *Endpoints) Get(ctx context.Context, tenant, id string) (Endpoint, error) {
	e, err := es.read(ctx, es.db.Pool(), tenant, id)
	return e.Endpoint, err
}

// List returns the endpoints of a tenant in the order of their creation.
func (es *Endpoints) List(ctx context.Context, tenant string) (list []Endpoint, err error) {
	rows, err := es.query(ctx, es.db.Pool(), "e.tenant = ? and e.deleted_at is null order by e.id", tenant)
	for _, e := range rows {
		if err == nil {
			err = e.open(es.cfg)
		}
		list = append(list, e.Endpoint)
	}
	return list, err
}

// read returns an endpoint of a tenant with its headers, or [ErrNotFound].
func (es *Endpoints) read(ctx context.Context, r sqlplane.Runner, tenant, id string) (e endpointRow, err error) {
	if e, err = es.find(ctx, r, tenant, id); err == nil {
		err = e.open(es.cfg)
	}
	return e, err
}

// find returns an endpoint of a tenant without decrypted headers, or [ErrNotFound]. Operators find endpoints
// without the key of the service.
func (es *Endpoints) find(ctx context.Context, r sqlplane.Runner, tenant, id string) (endpointRow, error) {
	rows, err := es.query(ctx, r, "e.uid = ? and e.tenant = ? and e.deleted_at is null", id, tenant)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return endpointRow{}, err
	}
	return rows[0], nil
}

func (es *Endpoints) query(ctx context.Context, r sqlplane.Runner, where string, args ...any) (list []endpointRow, err error) {
	err = r.Query(ctx, es.text("select "+endpointColumns+" from once_webhook_endpoint e where "+where, args...), func(row sqlplane.Row) error {
		e, err := scanEndpoint(row)
		list = append(list, e)
		return err
	})
	return list, err
}

func (es *Endpoints) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(es.db.Dialect(), query), Args: args}
}

func (es *Endpoints) within(ctx context.Context, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	return letter.Within(ctx, es.db, fn)
}

// audit writes an entry to the audit. Without By, audit does nothing.
func (es *Endpoints) audit(ctx context.Context, r sqlplane.Runner, action, tenant, detail string) error {
	if es.who == "" {
		return nil
	}
	_, err := r.Exec(ctx, audit.Insert(es.db.Dialect(), audit.Entry{Who: es.who, Action: "webhook " + action, Scope: tenant, Reason: es.reason, Detail: detail}))
	return err
}

// sealed is an endpoint with its secrets. Secrets and headers are always encrypted together, with the same key.
type sealed struct {
	Endpoint

	secret, old string
	overlap     time.Duration // how long requests are also signed with the old secret
}

func (s *sealed) seal(c *Config) (headers, secret, old []byte, err error) {
	headers, err = seal.EncodeHeaders(s.Headers)
	if err == nil {
		headers, err = c.seal(headers, headersLabel(s.ID))
	}
	if err == nil {
		secret, err = c.seal([]byte(s.secret), secretLabel(s.ID))
	}
	if err == nil && s.old != "" {
		old, err = c.seal([]byte(s.old), secretLabel(s.ID))
	}
	return headers, secret, old, err
}

// Rotation says how a secret is replaced.
type Rotation struct {
	// Secret is the new secret. Default: a new secret from [NewSecret]. If the answer to Rotate may be lost,
	// set Secret, so that you can repeat the rotation.
	Secret string

	// Overlap is how long requests are also signed with the previous secret. If Overlap is zero, requests are no
	// longer signed with the previous secret. Set Overlap to zero if the previous secret has leaked.
	Overlap time.Duration
}

const maxOverlap = 90 * 24 * time.Hour
