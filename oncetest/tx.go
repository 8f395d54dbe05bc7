package oncetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/testtx"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// WithTx returns a context from which oncehttp.Tx, oncegrpc.Tx and onceconnect.Tx return tx. Use WithTx to test a handler without the middleware
// that begins its transaction.
func WithTx[TX any](t testing.TB, ctx context.Context, tx TX) context.Context { //nolint:revive // the test comes first
	t.Helper()
	if any(tx) == nil {
		t.Fatal("oncetest: WithTx: the transaction is nil")
	}
	return testtx.With(ctx, tx)
}

// RequireMessage fails and ends the test unless exactly one message in the outbox matches want. RequireMessage compares the fields Topic, Key,
// Type, ID, Source, Seq, Trace, Headers and Payload, but only the fields that are not zero in want. RequireMessage returns the message that
// matches.
func RequireMessage[TX any](t testing.TB, box *outbox.Box[TX], want message.Message) message.Message {
	t.Helper()
	var found []message.Message
	var there []string
	for after, more := int64(0), true; more; more = after > 0 {
		list, next, err := box.List(t.Context(), outbox.Filter{After: after})
		if err != nil {
			t.Fatalf("oncetest: RequireMessage: %v", err)
		}
		for _, e := range list {
			m := e.Message
			if len(want.Payload) > 0 || len(want.Headers) > 0 {
				shown, err := box.Show(t.Context(), m.ID)
				if err != nil {
					t.Fatalf("oncetest: RequireMessage: %v", err)
				}
				m = shown.Message
			}
			there = append(there, described(m))
			if differs(want, m) == "" {
				found = append(found, m)
			}
		}
		after = next
	}
	if len(found) != 1 {
		t.Fatalf("oncetest: the outbox has %d messages like %s, but must have exactly one. Messages of the outbox:\n\t%s", len(found), described(want), strings.Join(there, "\n\t"))
	}
	return found[0]
}

// differs returns the name of the first field of want that m does not match, or "".
func differs(want, m message.Message) string {
	for _, f := range []struct{ name, want, got string }{
		{"topic", want.Topic, m.Topic},
		{"key", want.Key, m.Key},
		{"type", want.Type, m.Type},
		{"ID", want.ID, m.ID},
		{"source", want.Source, m.Source},
		{"trace", want.Trace, m.Trace},
		{"payload", string(want.Payload), string(m.Payload)},
	} {
		if f.want != "" && f.want != f.got {
			return f.name
		}
	}
	for name, value := range want.Headers {
		if m.Headers[name] != value {
			return "header " + name
		}
	}
	if want.Seq != 0 && want.Seq != m.Seq {
		return "seq"
	}
	return ""
}

func described(m message.Message) string {
	var b strings.Builder
	for _, f := range [][2]string{{"topic", m.Topic}, {"key", m.Key}, {"type", m.Type}, {"payload", string(m.Payload)}} {
		if f[1] != "" {
			fmt.Fprintf(&b, " %s %q", f[0], f[1])
		}
	}
	return strings.TrimSpace(b.String())
}

// advances are the times of an operation that Advance moves into the past.
var advances = []string{"lease_until", "expires_at"}

// Advance makes all leases and retentions in the store s end earlier by d, as if the time d had passed. So a test need not wait until a lease
// ends or a result expires. Advance does not change the clock of the store, so operations after Advance have the real time.
func Advance(t testing.TB, s store.Operations, d time.Duration) {
	t.Helper()
	if clock, ok := store.As[interface{ Advance(d time.Duration) }](s); ok { // as memstore has
		clock.Advance(d)
		return
	}
	db, ok := store.As[sqlplane.Database](s)
	if !ok {
		t.Fatal("oncetest: Advance: the store has neither SQL nor a clock of its own. Try: memstore, sqlstore or pgxstore")
	}
	var set []string
	args := []any{}
	for _, column := range advances {
		back, by := " - ?", any(d.Milliseconds())
		if db.Dialect() == sqlplane.PostgreSQL {
			back, by = " - ? * interval '1 microsecond'", d.Microseconds()
		}
		set, args = append(set, column+" = "+column+back), append(args, by)
	}
	text := dialect.Text(db.Dialect(), "update once_operation set "+strings.Join(set, ", "))
	if _, err := db.Pool().Exec(t.Context(), store.Statement{SQL: text, Args: slices.Clip(args)}); err != nil {
		t.Fatalf("oncetest: Advance: %v", err)
	}
}
