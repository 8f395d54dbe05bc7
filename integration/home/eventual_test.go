package home

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
)

// order is an operation that only adds an event: what it comes to is made of the request alone.
func order(ctx context.Context, engine *once.Engine[*sql.Tx], box *outbox.Box[*sql.Tx], op once.Operation, item string) error {
	_, err := once.Do(ctx, engine, op, func(ctx context.Context, tx *sql.Tx) (string, error) {
		return "accepted", box.Add(ctx, tx, message.Message{
			ID: outbox.IDFor(op, 0), Source: "/orders", Topic: "orders", Type: "order.placed", Payload: []byte(`{"item":"` + item + `"}`),
		})
	})
	return err
}

// TestTwoRegionsHaveOneEffectInTheInbox: two regions are cut apart, and each executes the same operation for itself. Both deliver its message, and the inbox of the consumer
// has one effect. With an ID by chance, it has two.
func TestTwoRegionsHaveOneEffectInTheInbox(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *sqlstore.Store {
		t.Helper()
		d := harness.SQLiteFile(harness.SQLite, filepath.Join(dir, name))
		must(t, d.Migrate(t.Context(), []migration.Set{outbox.Migrations, inbox.Migrations, deadletter.Migrations}, effects))
		s, _ := harness.OpenSQL(t, d)
		return s
	}
	consumer := open("consumer.db")
	in := inbox.New(once.New(consumer, once.Config{Observer: once.Discard}), inbox.Config{Consumer: "stock"})
	apply := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into effect (tenant, what) values (?, ?)", m.Topic, string(m.Payload))
		return err
	}
	boxes := map[string]*outbox.Box[*sql.Tx]{}
	for _, name := range []string{"eu", "us"} {
		s := open(name + ".db")
		boxes[name] = outbox.New(s, outbox.Config{})
		engine := once.New(s, once.Config{Observer: once.Discard})
		for range 2 { // the second one is a retry
			must(t, order(t.Context(), engine, boxes[name], once.Operation{Scope: "acme POST /orders", Key: "k1"}, "book"))
		}
		_, err := once.Do(t.Context(), engine, once.Operation{Scope: "acme POST /orders", Key: "k2"}, func(ctx context.Context, tx *sql.Tx) (string, error) {
			return "", boxes[name].Add(ctx, tx, message.Message{Source: "/orders", Topic: "orders", Type: "order.placed", Payload: []byte("by chance")})
		})
		must(t, err)
	}
	for name, box := range boxes { // the regions see each other, and the consumer, again
		ctx, cancel := context.WithCancel(t.Context())
		var left atomic.Int64 // messages without a key are delivered at the same time
		left.Store(2)
		relay := box.Relay(outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) (errs []error) {
			for _, m := range messages {
				_, err := in.Handle(ctx, m, apply)
				if errs = append(errs, err); err == nil && left.Add(-1) == 0 {
					cancel()
				}
			}
			return errs
		}), outbox.RelayConfig{})
		if err := relay.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for payload, want := range map[string]int{`{"item":"book"}`: 1, "by chance": 2} {
		if n := harness.Count(t, consumer, "select count(*) from effect where what = ?", payload); n != want {
			t.Errorf("%s has taken effect %d times at the consumer, want %d", payload, n, want)
		}
	}
}
