package receipt

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
)

// TestMain starts the servers that the tests need.
func TestMain(m *testing.M) { harness.Main[plan](m) }

type plan struct{}

// CarryOut implements harness.Plan.
func (plan) CarryOut(context.Context) error { return nil }

// TestReceiptContract: what every implementation of gateway.Receipts does, on every database.
func TestReceiptContract(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		s := newService(t, kind)
		contract(t, s, s.table(t, time.Minute))
	})
}

// contract is what a gateway relies on.
func contract(t *testing.T, s *service, r gateway.Receipts) {
	t.Helper()
	ctx := t.Context()

	// What is absent is told as absent, and leaves nothing behind: the service may commit.
	if got, found, err := r.Look(ctx, "a"); found || err != nil {
		t.Errorf("look: %+v, %v, %v", got, found, err)
	}
	tx, err := s.work(ctx, "a", `{"id":"ch_1"}`)
	must(t, err)
	must(t, tx.Commit())
	want := gateway.Receipt{Operation: "a", Fingerprint: "f-a", Status: 201, Body: []byte(`{"id":"ch_1"}`)}
	for name, ask := range map[string]func(context.Context, string) (gateway.Receipt, error){"look": look(r), "settle": r.Settle} {
		if got, err := ask(ctx, "a"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}

	// A header, of texts and lists of texts; no body, no fingerprint.
	s.exec(t, `insert into once_receipt (operation, status, header) values ('h', 204, '{"Location":"/x","Set-Cookie":["a=1","b=2"]}')`)
	want = gateway.Receipt{Operation: "h", Status: 204, Header: http.Header{"Location": {"/x"}, "Set-Cookie": {"a=1", "b=2"}}}
	if got, err := r.Settle(ctx, "h"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}

	// A tombstone is final: the service cannot commit any more, and it stays a tombstone.
	for range 2 {
		if got, err := r.Settle(ctx, "b"); err != nil || !reflect.DeepEqual(got, gateway.Receipt{Operation: "b", Tombstone: true}) {
			t.Errorf("settle: %+v, %v, want a tombstone", got, err)
		}
	}
	if _, err := s.work(ctx, "b", ""); err == nil {
		t.Error("the service commits after a tombstone")
	}
	if got, found, err := r.Look(ctx, "b"); err != nil || !found || !got.Tombstone {
		t.Errorf("look: %+v, %v, %v, want a tombstone", got, found, err)
	}
	if n := s.charges(t, "b"); n != 0 {
		t.Errorf("%d effects after a tombstone", n)
	}

	// What cannot be told is an error.
	s.exec(t, "insert into once_receipt (operation, status, body) values ('large', 200, ?)", make([]byte, 1001))
	s.exec(t, `insert into once_receipt (operation, status, header) values ('header', 200, '[1]')`)
	for _, operation := range []string{"large", "header", "", "a b", "../a", "ä", string(make([]byte, 256))} {
		if got, found, err := r.Look(ctx, operation); err == nil {
			t.Errorf("look at %q: %+v, %v", operation, got, found)
		}
		if got, err := r.Settle(ctx, operation); err == nil {
			t.Errorf("settle of %q: %+v", operation, got)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if got, err := r.Settle(over, "c"); err == nil {
		t.Errorf("settle after the end of its context: %+v", got)
	}
}

func look(r gateway.Receipts) func(context.Context, string) (gateway.Receipt, error) {
	return func(ctx context.Context, operation string) (gateway.Receipt, error) {
		got, _, err := r.Look(ctx, operation)
		return got, err
	}
}
