package outbox

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
)

// TestResendDeliversOnce: of two callers one has a delivered message delivered again, whole; what waits, what was erased and what is not kept is refused, and
// changes nothing.
func TestResendDeliversOnce(t *testing.T) {
	testenv.Both(t)
	on(t, testResend[pgx.Tx], testResend[*sql.Tx])
}

func testResend[TX any](t *testing.T, g *fixture[TX]) {
	m, id := withID(event("a", "k", "t"))
	m.Payload = []byte("whole")
	g.mustAdd(t, m)
	before, err := g.box.Show(t.Context(), id)
	must(t, err)
	if err := g.box.Resend(t.Context(), id, "r"); !errors.Is(err, outbox.ErrNotDelivered) || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("one that waits: %v", err)
	}
	g.delivered(t, id)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- g.box.By("ada", "").Resend(t.Context(), id, "ticket") }()
	}
	a, b := <-errs, <-errs
	if a != nil {
		a, b = b, a
	}
	if a != nil || !errors.Is(b, outbox.ErrNotDelivered) {
		t.Errorf("two callers: %v, %v", a, b)
	}
	if n, kept, audited := g.count(t, "select count(*) from once_outbox"), g.count(t, "select count(*) from once_outbox_sent"), g.count(t, "select count(*) from once_audit where action = 'outbox resend' and who = 'ada'"); n != 1 || kept != 0 || audited != 1 {
		t.Errorf("%d messages wait, %d are kept, %d entries in the audit", n, kept, audited)
	}
	e, err := g.box.Show(t.Context(), id)
	must(t, err)
	if e.State != outbox.StateWaiting || string(e.Payload) != "whole" || e.Seq != before.Seq || e.Key != before.Key || !e.CreatedAt.Equal(before.CreatedAt) || e.OpKey != before.OpKey {
		t.Errorf("%+v, want %+v", e, before)
	}
	g.delivered(t, id)
	_, err = g.box.Forget(t.Context(), "a", "k", "asked")
	must(t, err)
	if err := g.box.Resend(t.Context(), id, "r"); !errors.Is(err, outbox.ErrErased) {
		t.Errorf("one that was erased: %v", err)
	}
	if n := g.count(t, "select count(*) from once_outbox_sent"); n != 1 {
		t.Errorf("%d messages are kept after a refusal", n)
	}
	for _, none := range []string{strings.Replace(id, "7", "8", 1), ""} {
		if err := g.box.Resend(t.Context(), none, "r"); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%q: %v", none, err)
		}
	}
	if err := g.box.Resend(t.Context(), id, ""); err == nil {
		t.Error("without a reason")
	}
}
