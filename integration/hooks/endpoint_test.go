package hooks

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// together runs fn n times at once, and counts the errors that are target; nil is one, too. Another one fails the test.
func together(t *testing.T, n int, target error, fn func() error) (succeeded, refused int) {
	t.Helper()
	results := make(chan error, n)
	for range n {
		go func() { results <- fn() }()
	}
	for range n {
		switch err := <-results; {
		case err == nil:
			succeeded++
		case errors.Is(err, target):
			refused++
		default:
			t.Error(err)
		}
	}
	return succeeded, refused
}

// TestEndpointLimit: a tenant never has more endpoints than it can have, also if several are created at once. One that is deleted makes room.
func TestEndpointLimit(t *testing.T) {
	testenv.Both(t)
	on(t, testEndpointLimit[pgx.Tx], testEndpointLimit[*sql.Tx])
}

func testEndpointLimit[TX any](t *testing.T, g *fixture[TX]) {
	cfg := config()
	cfg.MaxEndpoints = 3
	es := webhook.New(g.db, cfg).Endpoints()
	create := func() error {
		_, _, err := es.Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.7", Types: []string{"*"}})
		return err
	}
	if succeeded, refused := together(t, 8, webhook.ErrTooMany, create); succeeded != 3 || refused != 5 {
		t.Errorf("of 8 at once %d were created and %d refused, want 3 and 5", succeeded, refused)
	}
	list, err := es.List(t.Context(), "acme")
	must(t, err)
	must(t, es.Delete(t.Context(), "acme", list[0].ID))
	if succeeded, refused := together(t, 3, webhook.ErrTooMany, create); succeeded != 1 || refused != 2 {
		t.Errorf("in the room of one %d were created and %d refused", succeeded, refused)
	}
	g.endpoint(t, "other", "*")
	if n := g.count(t, "select count(*) from once_webhook_endpoint where tenant = 'acme' and deleted_at is null"); n != 3 {
		t.Errorf("acme has %d endpoints", n)
	}
}

// secrets decrypts those of an endpoint: the present one, and the one before it.
func (g *fixture[TX]) secrets(t *testing.T, id string) (secret, old string) {
	t.Helper()
	must(t, g.db.Pool().Query(t.Context(), harness.Text(g.db, "select secret, secret_old from once_webhook_endpoint where uid = ?", id), func(row sqlplane.Row) error {
		var sealed, before []byte
		if err := row.Scan(&sealed, &before); err != nil {
			return err
		}
		plain, err := encrypter.Decrypt(sealed, []byte("webhook/secret/"+id))
		if secret = string(plain); err == nil && len(before) > 0 {
			plain, err = encrypter.Decrypt(before, []byte("webhook/secret/"+id))
			old = string(plain)
		}
		return err
	}))
	return secret, old
}

// TestRotateASecret: the secret before the present one signs beside it until the overlap is over; of several rotations at once one succeeds, so that no secret that a receiver has
// is lost; one that is known to others is replaced at once; and a rotation whose answer was lost can be made again.
func TestRotateASecret(t *testing.T) {
	testenv.Both(t)
	on(t, testRotate[pgx.Tx], testRotate[*sql.Tx])
}

func testRotate[TX any](t *testing.T, g *fixture[TX]) {
	es := g.hooks.Endpoints()
	first := webhook.NewSecret()
	e, shown, err := es.Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.7", Types: []string{"*"}, Secret: first})
	must(t, err)
	if shown != first || e.Secret != "" {
		t.Errorf("the secret %q was given, and %q is shown", first, shown)
	}
	var mu sync.Mutex
	var got string
	succeeded, refused := together(t, 4, webhook.ErrRotating, func() error {
		_, secret, err := es.Rotate(t.Context(), "acme", e.ID, webhook.Rotation{Overlap: time.Hour})
		mu.Lock()
		defer mu.Unlock()
		got += secret
		return err
	})
	if succeeded != 1 || refused != 3 {
		t.Errorf("of 4 rotations at once %d succeeded and %d were refused", succeeded, refused)
	}
	if secret, old := g.secrets(t, e.ID); secret != got || old != first {
		t.Errorf("the database has not the secret that was shown, and the one before")
	}
	now, err := es.Get(t.Context(), "acme", e.ID)
	must(t, err)
	now.Description = "changed" // another change leaves both
	changed, err := es.Update(t.Context(), now)
	must(t, err)
	if _, old := g.secrets(t, e.ID); old != first || changed.OldSecretUntil.IsZero() {
		t.Errorf("a change of something else has changed the secrets: until %v", changed.OldSecretUntil)
	}
	_, again, err := es.Rotate(t.Context(), "acme", e.ID, webhook.Rotation{Secret: got, Overlap: time.Hour}) // its answer was lost
	must(t, err)
	if _, old := g.secrets(t, e.ID); again != got || old != first {
		t.Error("a rotation that is made again is another one")
	}
	_, last, err := es.Rotate(t.Context(), "acme", e.ID, webhook.Rotation{}) // others know the secret
	must(t, err)
	if secret, old := g.secrets(t, e.ID); secret != last || old != "" {
		t.Error("a rotation without an overlap leaves a secret that others know")
	}
	must(t, second(es.Rotate(t.Context(), "acme", e.ID, webhook.Rotation{Overlap: time.Hour})))
	g.exec(t, "update once_webhook_endpoint set secret_old_until = NOW")
	must(t, second(es.Rotate(t.Context(), "acme", e.ID, webhook.Rotation{Overlap: time.Hour}))) // the overlap is over
	for _, bad := range []webhook.Rotation{{Overlap: -1}, {Overlap: 1000 * 24 * time.Hour}, {Secret: "short"}} {
		if err := second(es.Rotate(t.Context(), "acme", e.ID, bad)); !errors.Is(err, webhook.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func second(_ webhook.Endpoint, _ string, err error) error { return err }

// TestPublicKey: an endpoint that signs with a private key shows the public one whenever it is shown, and one with another secret shows none.
func TestPublicKey(t *testing.T) {
	testenv.Both(t)
	on(t, testPublicKey[pgx.Tx], testPublicKey[*sql.Tx])
}

func testPublicKey[TX any](t *testing.T, g *fixture[TX]) {
	ctx, es := t.Context(), g.hooks.Endpoints()
	private, public := webhook.NewKeyPair()
	created, secret, err := es.Create(ctx, webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.7", Types: []string{"*"}, Secret: private})
	must(t, err)
	got, err := es.Get(ctx, "acme", created.ID)
	must(t, err)
	list, err := es.List(ctx, "acme")
	must(t, err)
	if secret != private || created.PublicKey != public || got.PublicKey != public || list[0].PublicKey != public {
		t.Errorf("%q, %q and %q, want %q", created.PublicKey, got.PublicKey, list[0].PublicKey, public)
	}
	private, public = webhook.NewKeyPair()
	rotated, _, err := es.Rotate(ctx, "acme", created.ID, webhook.Rotation{Secret: private})
	must(t, err)
	if shown := g.count(t, "select count(*) from once_webhook_endpoint where public_key = ?", public); rotated.PublicKey != public || shown != 1 { // operators have no key
		t.Errorf("after it was rotated: %q, %d", rotated.PublicKey, shown)
	}
	if rotated, _, err = es.Rotate(ctx, "acme", created.ID, webhook.Rotation{}); err != nil || rotated.PublicKey != "" || g.count(t, "select count(*) from once_webhook_endpoint where public_key <> ''") > 0 {
		t.Errorf("with a secret: %q, %v", rotated.PublicKey, err)
	}
}

// TestEncryptionBegins: endpoints that were stored without an Encrypter are read with one, and their secrets are encrypted by the next change.
func TestEncryptionBegins(t *testing.T) {
	testenv.Both(t)
	on(t, testEncryptionBegins[pgx.Tx], testEncryptionBegins[*sql.Tx])
}

func testEncryptionBegins[TX any](t *testing.T, g *fixture[TX]) {
	plain := webhook.New(g.db, webhook.Config{PlainSecrets: true, Guard: config().Guard}).Endpoints()
	e, secret, err := plain.Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.7", Types: []string{"*"}, Headers: map[string]string{"Authorization": "Bearer b"}})
	must(t, err)
	read, err := g.hooks.Endpoints().Get(t.Context(), "acme", e.ID)
	must(t, err)
	if read.Headers["authorization"] != "Bearer b" {
		t.Errorf("headers %v", read.Headers)
	}
	_, rotated, err := g.hooks.Endpoints().Rotate(t.Context(), "acme", e.ID, webhook.Rotation{Overlap: time.Hour})
	must(t, err)
	if now, old := g.secrets(t, e.ID); now != rotated || old != secret {
		t.Error("secrets are not encrypted by a change")
	}
	if _, err := plain.Get(t.Context(), "acme", e.ID); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("without the key: %v", err)
	}
}

// TestNothingIsPlain: the data of events and the secrets and headers of endpoints are in no column of no table.
func TestNothingIsPlain(t *testing.T) {
	testenv.Both(t)
	on(t, testNothingIsPlain[pgx.Tx], testNothingIsPlain[*sql.Tx])
}

func testNothingIsPlain[TX any](t *testing.T, g *fixture[TX]) {
	es := g.hooks.By("alice", "a test").Endpoints()
	e, secret, err := es.Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.7", Types: []string{"*"}, Headers: map[string]string{"X-Password": "confidential-header"}})
	must(t, err)
	_, rotated, err := es.Rotate(t.Context(), "acme", e.ID, webhook.Rotation{Overlap: time.Hour})
	must(t, err)
	g.send(t, webhook.Event{Tenant: "acme", Type: "a", Data: []byte("confidential-data")})
	rows := 0
	for table, columns := range map[string]string{
		"once_webhook_endpoint": "url, types, description, headers, secret, secret_old", "once_webhook_event": "uid, tenant, type, data", "once_audit": "who, action, scope, reason, detail",
	} {
		names := strings.Split(columns, ", ")
		must(t, g.db.Pool().Query(t.Context(), harness.Text(g.db, "select "+columns+" from "+table), func(row sqlplane.Row) error {
			values := make([][]byte, len(names))
			into := make([]any, len(names))
			for i := range values {
				into[i] = (*anyBytes)(&values[i])
			}
			rows++
			err := row.Scan(into...)
			for i, v := range values {
				for _, plain := range []string{"confidential", secret[6:], rotated[6:]} {
					if bytes.Contains(v, []byte(plain)) {
						t.Errorf("%s.%s has %q", table, names[i], plain)
					}
				}
			}
			return err
		}))
	}
	if rows != 4 {
		t.Errorf("vacuous: %d rows", rows)
	}
}

// anyBytes reads texts and bytes.
type anyBytes []byte

func (b *anyBytes) Scan(v any) error {
	switch v := v.(type) {
	case string:
		*b = []byte(v)
	case []byte:
		*b = bytes.Clone(v)
	}
	return nil
}

// TestChangesNeedTheVersionRead: a change needs the version that was read; who disables is kept; and what is not valid is refused by name.
func TestChangesNeedTheVersionRead(t *testing.T) {
	testenv.Both(t)
	on(t, testChanges[pgx.Tx], testChanges[*sql.Tx])
}

func testChanges[TX any](t *testing.T, g *fixture[TX]) {
	es := g.hooks.Endpoints()
	e := g.endpoint(t, "acme", "*")
	wanted := webhook.Endpoint{
		ID: e.ID, Tenant: "acme", URL: "https://203.0.113.9/new", Types: []string{"a.*", "b"}, Description: "new", Headers: map[string]string{"x-a": "1"}, Rate: 2.5, Concurrency: 3,
		CreatedAt: e.CreatedAt, Version: e.Version,
	}
	succeeded, refused := together(t, 4, webhook.ErrChanged, func() error { _, err := es.Update(t.Context(), wanted); return err })
	if succeeded != 1 || refused != 3 {
		t.Errorf("of 4 changes of one version %d succeeded and %d were refused", succeeded, refused)
	}
	got, err := es.Get(t.Context(), "acme", e.ID)
	must(t, err)
	wanted.Version = got.Version
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("got %+v, want %+v", got, wanted)
	}
	for range 2 {
		got, err = es.Disable(t.Context(), "acme", e.ID)
		must(t, err)
		if got.DisabledAt.IsZero() || got.DisabledBy != webhook.DisabledByPerson {
			t.Errorf("disabled at %v by %q", got.DisabledAt, got.DisabledBy)
		}
	}
	for range 2 {
		got, err = es.Enable(t.Context(), "acme", e.ID)
		must(t, err)
		if !got.DisabledAt.IsZero() || got.DisabledBy != "" {
			t.Errorf("enabled, and disabled at %v by %q", got.DisabledAt, got.DisabledBy)
		}
	}
	off, _, err := es.Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.7", Types: []string{"*"}, DisabledBy: webhook.DisabledByPerson})
	must(t, err)
	if off.DisabledAt.IsZero() {
		t.Error("it was to be created disabled")
	}
	for name, bad := range map[string]webhook.Endpoint{
		"no types": {URL: "https://203.0.113.7"}, "a type": {URL: "https://203.0.113.7", Types: []string{"a.*.b"}}, "a part of a word": {URL: "https://203.0.113.7", Types: []string{"ref*"}},
		"a blank":      {URL: "https://203.0.113.7", Types: []string{"a b"}},
		"a header":     {URL: "https://203.0.113.7", Types: []string{"*"}, Headers: map[string]string{"Webhook-Id": "x"}},
		"a host":       {URL: "https://203.0.113.7", Types: []string{"*"}, Headers: map[string]string{"Host": "x"}},
		"a line":       {URL: "https://203.0.113.7", Types: []string{"*"}, Headers: map[string]string{"X": "a\r\nb"}},
		"a rate":       {URL: "https://203.0.113.7", Types: []string{"*"}, Rate: -1},
		"a secret":     {URL: "https://203.0.113.7", Types: []string{"*"}, Secret: "whsec_x"},
		"two at once":  {URL: "https://203.0.113.7", Types: []string{"*"}, Ordered: true, Concurrency: 2},
		"many types":   {URL: "https://203.0.113.7", Types: manyTypes()},
		"own network":  {URL: "https://10.0.0.1", Types: []string{"*"}},
		"metadata":     {URL: "https://169.254.169.254", Types: []string{"*"}},
		"http":         {URL: "http://203.0.113.7", Types: []string{"*"}},
		"another port": {URL: "https://203.0.113.7:22", Types: []string{"*"}},
	} {
		want := webhook.ErrInvalid
		if slices.Contains([]string{"own network", "metadata", "http", "another port"}, name) {
			want = webhook.ErrURL
		}
		bad.Tenant = "acme"
		if _, _, err := es.Create(t.Context(), bad); !errors.Is(err, want) {
			t.Errorf("%s: created: %v", name, err)
		}
		bad.ID, bad.Version = got.ID, got.Version
		if bad.Secret == "" {
			if _, err := es.Update(t.Context(), bad); !errors.Is(err, want) {
				t.Errorf("%s: changed: %v", name, err)
			}
		}
	}
}

func manyTypes() (list []string) {
	for i := range 101 {
		list = append(list, fmt.Sprint("t", i))
	}
	return list
}

// TestDeleteBesideSend: what a transaction has sent that began before an endpoint was deleted, and commits after, is not delivered, and does not stay. The row of the endpoint goes an hour
// later, its secrets at once.
func TestDeleteBesideSend(t *testing.T) {
	testenv.Both(t)
	on(t, testDeleteBesideSend[pgx.Tx], testDeleteBesideSend[*sql.Tx])
}

func testDeleteBesideSend[TX any](t *testing.T, g *fixture[TX]) {
	es := g.hooks.Endpoints()
	e, stays := g.endpoint(t, "acme", "*"), g.endpoint(t, "acme", "*", "x")
	for range 3 {
		g.send(t, event("acme", "before"))
	}
	var deleted sync.WaitGroup
	must(t, g.do(t.Context(), store.RepeatableRead, func(ctx context.Context, tx TX) error {
		err := errors.Join(g.charge(ctx, tx, "1"), g.hooks.Send(ctx, tx, event("acme", "beside")))
		wait := make(chan struct{})
		deleted.Go(func() { must(t, es.Delete(t.Context(), "acme", e.ID)); close(wait) })
		if g.db.Dialect() == sqlplane.PostgreSQL {
			<-wait
		}
		return err
	}))
	deleted.Wait()
	g.send(t, event("acme", "after"))
	if err := es.Delete(t.Context(), "acme", e.ID); !errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if n := g.count(t, "select count(*) from once_webhook_endpoint where uid = ? and (url <> '' or length(secret) > 0 or length(headers) > 0 or secret_old is not null or disabled_at is null)", e.ID); n > 0 {
		t.Error("a deleted endpoint keeps what it had")
	}
	g.exec(t, "insert into once_webhook_state (endpoint, part, failures, told) select id, part, 1, 0 from once_webhook_endpoint")
	for _, sweep := range []struct{ rows, swept int }{{1, 0}, {0, 1}} {
		swept, err := g.hooks.Sweep(t.Context())
		must(t, err)
		if rows := g.count(t, "select count(*) from once_webhook_endpoint where uid = ?", e.ID); rows != sweep.rows || swept.Endpoints != int64(sweep.swept) {
			t.Errorf("%d rows, want %d: %+v", rows, sweep.rows, swept)
		}
		g.exec(t, "update once_webhook_endpoint set deleted_at = AGO(?) where deleted_at is not null", (2 * time.Hour).Microseconds())
	}
	if n := g.count(t, "select count(*) from once_webhook_state"); n != 1 {
		t.Errorf("%d states", n)
	}
	if n := g.count(t, "select count(*) from once_webhook_delivery"); n != 5 {
		t.Errorf("%d deliveries, want 5, of %s", n, stays.ID)
	}
}
