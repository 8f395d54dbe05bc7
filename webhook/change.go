package webhook

import (
	"context"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// Update stores the settings of e that a person can change: URL, Types, Description, Headers, Ordered, Rate and
// Concurrency. e.Version must be the version that the caller has read. If the endpoint was changed after the
// caller has read it, Update returns [ErrChanged]. Update can also return [ErrNotFound], [ErrInvalid], [ErrURL],
// and errors of the database.
func (es *Endpoints) Update(ctx context.Context, e Endpoint) (Endpoint, error) {
	e, err := es.cfg.checkedEndpoint(ctx, e)
	if err != nil {
		return Endpoint{}, err
	}
	return es.change(ctx, "change", e.Tenant, e.ID, func(s *sealed) error {
		if s.Version != e.Version {
			// The caller would overwrite a change that the caller has not seen.
			return ErrChanged
		}
		s.URL, s.Types, s.Description, s.Headers, s.Ordered, s.Rate, s.Concurrency = e.URL, e.Types, e.Description, e.Headers, e.Ordered, e.Rate, e.Concurrency
		return nil
	})
}

// Disable stops all deliveries to an endpoint. Waiting deliveries are kept until the endpoint is enabled. An
// event that is sent while the endpoint is disabled gets no delivery to this endpoint: see
// [Endpoints.Replay]. Requests that are in flight are not cancelled.
func (es *Endpoints) Disable(ctx context.Context, tenant, id string) (Endpoint, error) {
	return es.set(ctx, "disable", tenant, id, "disabled_at = coalesce(disabled_at, NOW), disabled_by = 'person'")
}

// Enable enables an endpoint, so that the endpoint gets new events and its waiting deliveries again. Failures of
// the endpoint before Enable no longer count.
func (es *Endpoints) Enable(ctx context.Context, tenant, id string) (Endpoint, error) {
	// The waiting deliveries may be due now.
	defer es.note()
	return es.set(ctx, "enable", tenant, id, "disabled_at = null, disabled_by = ''")
}

// Rotate replaces the secret of an endpoint, and returns the new secret. No method returns the secret of an
// endpoint a second time. If requests are still signed with the previous secret as well, Rotate returns
// [ErrRotating], unless to.Overlap is zero. ErrRotating protects a receiver that still has only the oldest of
// three secrets: a second rotation would end the signatures with the oldest secret, so this receiver would refuse
// every request. If to.Secret is already the secret of the endpoint, Rotate changes nothing.
func (es *Endpoints) Rotate(ctx context.Context, tenant, id string, to Rotation) (Endpoint, string, error) {
	if to.Secret == "" {
		to.Secret = NewSecret()
	}
	_, err := NewSigner(to.Secret)
	if err == nil && (to.Overlap < 0 || to.Overlap > maxOverlap) {
		err = fmt.Errorf("the overlap is %v, and must be between 0 and %v. Try: 24h", to.Overlap, maxOverlap)
	}
	if err != nil {
		return Endpoint{}, "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e, err := es.change(ctx, "rotate", tenant, id, func(s *sealed) error {
		same := subtle.ConstantTimeCompare([]byte(s.secret), []byte(to.Secret)) == 1
		switch {
		// A repeated call after a lost answer finds the new secret in the database, and changes nothing.
		case same && to.Overlap > 0:
			return nil
		// The previous secrets may have leaked, so an earlier overlap ends as well.
		case to.Overlap == 0:
			s.secret, s.old, s.overlap = to.Secret, "", 0
		case s.old != "":
			return fmt.Errorf("%w until %s. Try: rotate after that time, or use an overlap of 0", ErrRotating, s.OldSecretUntil.Format(time.RFC3339))
		default:
			s.secret, s.old, s.overlap = to.Secret, s.secret, to.Overlap
		}
		return nil
	})
	if err != nil {
		return Endpoint{}, "", err
	}
	return e, to.Secret, nil
}

// Delete deletes an endpoint and its waiting deliveries. Only requests that are already in flight still reach
// the endpoint. The secrets and headers of the endpoint are erased immediately. [Hooks.Sweep] later deletes
// the rows of the endpoint.
func (es *Endpoints) Delete(ctx context.Context, tenant, id string) error {
	return es.within(ctx, func(ctx context.Context, r sqlplane.Runner) error {
		n, err := r.Exec(ctx, es.text(`update once_webhook_endpoint set `+erased+` where uid = ? and tenant = ? and deleted_at is null`, []byte{}, []byte{}, id, tenant))
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		return es.audit(ctx, r, "delete", tenant, id)
	})
}

// erased sets the columns of a deleted endpoint. The row is kept for a while: a concurrent Send that has
// already read the row must not store a delivery without an endpoint. The text has two arguments, both empty.
const erased = "deleted_at = NOW, disabled_at = NOW, disabled_by = 'person', url = '', types = '', description = '', headers = ?, secret = ?, secret_old = null, secret_old_until = null," +
	" public_key = '', encrypted = false, version = version + 1"

// set changes columns that are not encrypted. Operators can call set without the key of the service. The
// returned endpoint then has no headers.
func (es *Endpoints) set(ctx context.Context, action, tenant, id, columns string) (changed Endpoint, err error) {
	err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) error {
		n, err := r.Exec(ctx, es.text("update once_webhook_endpoint set version = version + 1, "+columns+" where uid = ? and tenant = ? and deleted_at is null", id, tenant))
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		row, err := es.find(ctx, r, tenant, id)
		if err == nil && row.DisabledBy == "" { // otherwise the next failure of an enabled endpoint could disable the endpoint again
			_, err = r.Exec(ctx, es.text("delete from once_webhook_state where endpoint = ?", row.id))
		}
		// Without the key of the service the headers stay encrypted, and are not returned.
		if err == nil && (es.cfg.Encrypter != nil || !row.encrypted) {
			err = row.open(es.cfg)
		}
		if err != nil {
			return err
		}
		changed = row.Endpoint
		return es.audit(ctx, r, action, tenant, id)
	})
	if err != nil {
		return Endpoint{}, err
	}
	return changed, nil
}

// change locks an endpoint, applies fn and stores the result.
func (es *Endpoints) change(ctx context.Context, action, tenant, id string, fn func(*sealed) error) (changed Endpoint, err error) {
	err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) error {
		// A write comes first. It locks the row on every database. On SQLite, a transaction that has read
		// cannot write after another transaction has written.
		n, err := r.Exec(ctx, es.text("update once_webhook_endpoint set version = version + 1 where uid = ? and tenant = ? and deleted_at is null", id, tenant))
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		s, err := es.readSealed(ctx, r, tenant, id)
		if err != nil {
			return err
		}
		s.Version-- // fn compares the version before the update above
		if err := fn(&s); err != nil {
			return err
		}
		if err := es.write(ctx, r, &s); err != nil {
			return err
		}
		row, err := es.read(ctx, r, tenant, id)
		if err != nil {
			return err
		}
		changed = row.Endpoint
		return es.audit(ctx, r, action, tenant, id)
	})
	if err != nil {
		return Endpoint{}, err
	}
	return changed, nil
}

// readSealed reads an endpoint and its secrets. The old secret is "" if requests are no longer signed with it.
func (es *Endpoints) readSealed(ctx context.Context, r sqlplane.Runner, tenant, id string) (s sealed, err error) {
	row, err := es.read(ctx, r, tenant, id)
	if err != nil {
		return s, err
	}
	s.Endpoint = row.Endpoint
	var secret, old []byte
	var now time.Time
	err = r.Query(ctx, es.text("select secret, case when secret_old_until > NOW then secret_old end, NOW from once_webhook_endpoint where id = ?", row.id), func(row sqlplane.Row) error {
		return row.Scan(&secret, &old, (*dialect.Time)(&now))
	})
	if err == nil {
		secret, err = es.cfg.open(secret, row.encrypted, secretLabel(id))
	}
	if err == nil && len(old) > 0 {
		// The rest of the overlap, by the clock of the database.
		s.overlap = row.OldSecretUntil.Sub(now)
		old, err = es.cfg.open(old, row.encrypted, secretLabel(id))
	}
	s.secret, s.old = string(secret), string(old)
	return s, err
}

func (es *Endpoints) write(ctx context.Context, r sqlplane.Runner, s *sealed) error {
	headers, secret, old, err := s.seal(es.cfg)
	if err != nil {
		return err
	}
	set, args := "secret_old = null, secret_old_until = null", []any{}
	if old != nil {
		set, args = "secret_old = ?, secret_old_until = AGO(?)", []any{old, -s.overlap.Microseconds()}
	}
	args = append(args, s.URL, column(s.Types), s.Description, headers, secret, publicKeyOf(s.secret), es.cfg.Encrypter != nil, s.Ordered, s.Rate, int64(s.Concurrency), s.ID)
	_, err = r.Exec(ctx, es.text("update once_webhook_endpoint set "+set+
		", url = ?, types = ?, description = ?, headers = ?, secret = ?, public_key = ?, encrypted = ?, ordered = ?, rate = ?, concurrency = ? where uid = ?", args...))
	return err
}
