package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestAddFreezes: what the caller changes after Add is stored as it was, also where it is sent later.
func TestAddFreezes(t *testing.T) {
	testenv.Both(t)
	on(t, testAddFreezes[pgx.Tx], testAddFreezes[*sql.Tx])
}

func testAddFreezes[TX any](t *testing.T, g *fixture[TX]) {
	m, id := withID(event("a", "k", "before"))
	m.Headers = map[string]string{"h": "before"}
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
		err := g.box.Add(ctx, tx, m)
		copy(m.Payload, "xxxxxx")
		m.Headers["h"] = "x"
		return err
	}))
	e, err := g.box.Show(t.Context(), id)
	if err != nil || string(e.Payload) != "before" || e.Headers["h"] != "before" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestAddRefuses: after an error of validation nothing is stored and the transaction goes on; after an
// error of the database it does not commit.
func TestAddRefuses(t *testing.T) {
	testenv.Both(t)
	on(t, testAddRefuses[pgx.Tx], testAddRefuses[*sql.Tx])
}

func testAddRefuses[TX any](t *testing.T, g *fixture[TX]) {
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
		if err := g.box.Add(ctx, tx, event("a", "k", "1"), event("", "k", "2"), event("a", "k", "3")); err == nil || errors.As(err, new(*store.Error)) {
			t.Errorf("%v is of no message", err)
		}
		return errors.Join(g.charge(ctx, tx, "x"), g.box.Add(ctx, tx, event("a", "k", "4")))
	}))
	_, err := once.DoBatch(t.Context(), g.engine, once.Operation{Scope: "s", Key: "batch"}, func(b *once.Batch) (string, error) {
		if err := g.box.Declare(t.Context(), b, event("a", "k", "5"), event("a", "k", "")); err == nil {
			t.Error("taken")
		}
		return "", g.box.Declare(t.Context(), b, event("a", "k", "6"))
	})
	must(t, err)
	g.wantRows(t, "a k 1 4", "a k 2 6")

	g.exec(t, "drop table once_outbox")
	err = g.do(t.Context(), func(ctx context.Context, tx TX) error {
		must(t, g.charge(ctx, tx, "y"))
		_ = g.box.Add(ctx, tx, event("a", "k", "7")) // swallowed
		return nil
	})
	if once.EffectOf(err) != once.EffectNotApplied {
		t.Errorf("%v, want an operation that is not applied", err)
	}
	err = g.do(t.Context(), func(ctx context.Context, tx TX) error { return g.box.Add(ctx, tx, event("a", "k", "8")) })
	if !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("%v, want %v", err, store.ErrNotMigrated)
	}
	if n := g.count(t, "select count(*) from charge"); n != 1 {
		t.Errorf("%d charges", n)
	}
	if n := g.count(t, "select seq from once_stream"); n != 2 {
		t.Errorf("the last number is %d, want 2", n)
	}
}

// TestAddNeedsAGuard: in a *sql.Tx that could commit although a statement has failed, nothing is added.
func TestAddNeedsAGuard(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.SQL, func(t *testing.T, kind string) {
		d := migrated(t, kind)
		g := openSQL(t, d)
		plain, err := sql.Open(d.Driver(), d.DSN)
		must(t, err)
		defer func() { _ = plain.Close() }()
		tx, err := plain.BeginTx(t.Context(), nil)
		must(t, err)
		err = g.box.Add(t.Context(), tx, event("a", "k", "1"))
		if store.KindOf(err) != store.KindMisused || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%v, want an error of kind %q", err, store.KindMisused)
		}
		must(t, tx.Commit())
		g.wantRows(t)
	})
}

// TestPayloadsAndHeadersAreEncrypted: neither payload nor headers are in the database, and without the key they cannot be read.
func TestPayloadsAndHeadersAreEncrypted(t *testing.T) {
	testenv.Both(t)
	on(t, testEncrypted[pgx.Tx], testEncrypted[*sql.Tx])
}

func testEncrypted[TX any](t *testing.T, g *fixture[TX]) {
	boxOf := func(key byte) *outbox.Box[TX] {
		e, err := once.NewEncrypter(bytes.Repeat([]byte{key}, 32))
		must(t, err)
		return outbox.New[TX](g.store, outbox.Config{Encrypter: e})
	}
	box := boxOf(1)
	m, id := withID(message.Message{Topic: "a", Key: "k", Type: "t", Payload: []byte("secret payload"), Headers: map[string]string{"secret-name": "secret value"}})
	empty, emptyID := withID(message.Message{Topic: "a", Key: "k", Type: "t"})
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error { return box.Add(ctx, tx, m, empty) }))
	must(t, g.store.Pool().Query(t.Context(), g.text("select headers, payload from once_outbox"), func(row sqlplane.Row) error {
		var headers, payload []byte
		err := row.Scan(&headers, &payload)
		if bytes.Contains(append(headers, payload...), []byte("secret")) {
			t.Error("stored as plain text")
		}
		return err
	}))
	e, err := box.Show(t.Context(), id)
	if delete(e.Headers, message.HeaderKeyHash); err != nil || string(e.Payload) != "secret payload" || fmt.Sprint(e.Headers) != "map[secret-name:secret value]" || !e.Encrypted {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := box.Show(t.Context(), emptyID); err != nil || len(e.Payload) > 0 || len(e.Headers) != 1 || (&e.Message).KeyHash() == "" {
		t.Errorf("%+v, %v", e, err)
	}
	for name, other := range map[string]*outbox.Box[TX]{"without a key": g.box, "with another key": boxOf(2)} {
		e, err := other.Show(t.Context(), id)
		if err == nil || !strings.Contains(err.Error(), "Try: ") || !strings.Contains(err.Error(), "key") || e.ID != id || e.Seq != 1 || !e.Encrypted || e.Payload != nil || e.Headers != nil {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if list, _, err := other.List(t.Context(), outbox.Filter{}); err != nil || len(list) != 2 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	g.exec(t, "update once_outbox set event_id = ? where seq = 1", emptyID[:35]+"0") // as if the row had been copied
	if _, err := box.Show(t.Context(), emptyID[:35]+"0"); err == nil && emptyID[35] != '0' {
		t.Error("it opens in another row")
	}
}

// TestIdsAreNeverReused: also after all messages were delivered, on a new connection.
func TestIdsAreNeverReused(t *testing.T) {
	testenv.Both(t)
	on(t, testIdsAreNeverReused[pgx.Tx], testIdsAreNeverReused[*sql.Tx])
}

func testIdsAreNeverReused[TX any](t *testing.T, g *fixture[TX]) {
	last := 0
	for range 3 {
		g.mustAdd(t, event("a", "k", "1"), event("a", "", "1"))
		first := g.count(t, "select min(id) from once_outbox")
		if first <= last {
			t.Errorf("id %d comes after %d", first, last)
		}
		last = g.count(t, "select max(id) from once_outbox")
		g.exec(t, "delete from once_outbox")
	}
}
