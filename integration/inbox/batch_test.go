package inbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestBatchIsOneTransaction: a batch is applied in one transaction, and duplicates in it do no harm.
func TestBatchIsOneTransaction(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testBatch[pgx.Tx], testBatch[*sql.Tx])
}

func testBatch[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{})
	var batch []message.Message
	var ids []string
	for i := range 70 {
		ids = append(ids, fmt.Sprint("m", i))
		batch = append(batch, event(ids[i]))
	}
	must(t, errorsOf(in.HandleBatch(t.Context(), batch[:10], g.book)))
	twin, liar := batch[20], batch[21]
	liar.Payload = []byte("another body")
	results := in.HandleBatch(t.Context(), append(slices.Clone(batch), twin, liar, batch[3]), g.book)
	for i, r := range results {
		w := inbox.Applied
		switch {
		case i < 10, i == 70, i == 72:
			w = inbox.Duplicate
		case i == 71:
			w = inbox.DeadLettered
		}
		if r.Outcome != w || r.Err != nil {
			t.Errorf("message %d: %+v, want %s", i, r, w)
		}
	}
	g.wantBooked(t, ids...)
	for i := range batch {
		batch[i].Delivery = 2
	}
	for i, r := range in.HandleBatch(t.Context(), batch, g.book) {
		want(t, r.Outcome, r.Err, inbox.Duplicate)
		_ = i
	}
	g.wantBooked(t, ids...)
	if r := in.HandleBatch(t.Context(), nil, g.book); len(r) != 0 {
		t.Errorf("%v", r)
	}
}

func errorsOf(results []inbox.Result) error {
	var list []error
	for _, r := range results {
		list = append(list, r.Err)
	}
	return errors.Join(list...)
}

// TestPoisonInBatch: a message that fails does so alone, and later ones of its key wait for it.
func TestPoisonInBatch(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testPoisonInBatch[pgx.Tx], testPoisonInBatch[*sql.Tx])
}

func testPoisonInBatch[TX any](t *testing.T, g *fixture[TX]) {
	for _, c := range []struct {
		order         inbox.Order
		first, second string
	}{
		{inbox.AnyOrder, "applied retry retry applied applied applied retry", "applied applied applied"},
		{inbox.InOrder, "applied retry retry applied parked applied retry", "applied applied applied"},
	} {
		g.exec(t, "delete from effect")
		in, _ := g.inbox(t, inbox.Config{Consumer: fmt.Sprint(c.order), Order: c.order})
		broken := true
		fn := g.failing(func(m message.Message) bool { return broken && (m.ID == "a-2" || m.ID == "free") })
		batch := []message.Message{ordered("a", 1), ordered("a", 2), ordered("a", 3), ordered("b", 1), ordered("c", 2), event("other"), event("free")}
		if got := outcomes(in.HandleBatch(t.Context(), batch, fn)); got != c.first {
			t.Errorf("order %d: %s, want %s", c.order, got, c.first)
		}
		booked := []string{"a-1", "b-1", "other"}
		if c.order == inbox.AnyOrder {
			booked = append(booked, "c-2")
		}
		g.wantBooked(t, booked...)
		broken = false
		if got := outcomes(in.HandleBatch(t.Context(), []message.Message{batch[1], batch[2], batch[6]}, fn)); got != c.second {
			t.Errorf("order %d: %s, want %s", c.order, got, c.second)
		}
		g.wantBooked(t, append(booked, "a-2", "a-3", "free")...)
		if n := g.count(t, "select count(*) from once_inbox where consumer = ? and processed_at is null", fmt.Sprint(c.order)); n != 0 {
			t.Errorf("%d IDs are not processed", n)
		}
	}
}

// TestBatchOrder: messages of a key that came out of order within a batch are handled in their order.
func TestBatchOrder(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testBatchOrder[pgx.Tx], testBatchOrder[*sql.Tx])
}

func testBatchOrder[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder})
	batch := []message.Message{ordered("a", 3), ordered("b", 1), ordered("a", 1), ordered("a", 2), ordered("b", 1), ordered("c", 3), ordered("c", 3), ordered("c", 2)}
	if got := outcomes(in.HandleBatch(t.Context(), batch, g.book)); got != "applied applied applied applied duplicate parked parked parked" {
		t.Error(got)
	}
	if n := g.parked(t); n != 2 {
		t.Errorf("%d parked", n)
	}
	if got := outcomes(in.HandleBatch(t.Context(), []message.Message{ordered("c", 1), ordered("a", 4), ordered("c", 4)}, g.book)); got != "applied applied parked" {
		t.Error(got)
	}
	g.exec(t, "delete from effect where k = 'b'")
	g.wantOnce(t, []string{"a", "c"}, 4)
}

// TestDoReturnsTheFirstResult: a duplicate gets the result of the first time.
func TestDoReturnsTheFirstResult(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testDo[pgx.Tx], testDo[*sql.Tx])
}

func testDo[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{})
	type receipt struct{ Number int }
	runs := 0
	fn := func(ctx context.Context, tx TX, m message.Message) (receipt, error) {
		runs++
		return receipt{runs}, g.book(ctx, tx, m)
	}
	for try := range 3 {
		r, err := inbox.Do(t.Context(), in, event("a"), fn)
		if err != nil || r.Value.Number != 1 || r.Replayed != (try > 0) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	g.wantBooked(t, "a")
	if _, err := inbox.Do(t.Context(), in, event("b"), func(context.Context, TX, message.Message) (int, error) {
		return 0, retry.Permanent(errRefused)
	}); !errors.Is(err, inbox.ErrDeadLettered) {
		t.Error(err)
	}
	o, err := in.Handle(t.Context(), event("c"), g.book)
	want(t, o, err, inbox.Applied)
	if _, err := inbox.Do(t.Context(), in, event("c"), fn); once.CodeOf(err) != once.CodeNoResult {
		t.Error(err)
	}
	// A server that lags does not have the row yet: that proves nothing about the result.
	s, ok := store.As[sqlplane.SQL[TX]](g.engine.Store())
	if !ok {
		t.Fatal("the store has no SQL")
	}
	harness.Loop(t, 1, func(n int) bool {
		reads := int64(n)
		behind, _ := g.inboxOn(once.New[TX](lagging[TX]{g.engine.Store(), s, &reads}, once.Config{Observer: once.Discard}), inbox.Config{})
		r, err := inbox.Do(t.Context(), behind, event("a"), fn)
		if err == nil && r.Replayed {
			return false // it needs no further read
		}
		if err == nil || once.CodeOf(err) == once.CodeNoResult {
			t.Errorf("read %d lags: %+v, %v", n, r, err)
		}
		return true
	})
}

// lagging is a store whose pool reads from a standby that has no message yet, from the given read on.
type lagging[TX any] struct {
	store.Store[TX]
	sqlplane.SQL[TX]

	from *int64
}

func (s lagging[TX]) Unwrap() any { return s.Store }

func (s lagging[TX]) Pool() sqlplane.Runner { return laggingPool{s.SQL.Pool(), s.from} }

type laggingPool struct {
	sqlplane.Runner

	from *int64
}

func (p laggingPool) Query(ctx context.Context, q store.Statement, row func(sqlplane.Row) error) error {
	if *p.from--; *p.from <= 0 {
		return nil
	}
	return p.Runner.Query(ctx, q, row)
}

// TestRetentionOfAnID: an ID is known for as long as its source says, and one whose dead letter waits for longer.
func TestRetentionOfAnID(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRetention[pgx.Tx], testRetention[*sql.Tx])
}

func testRetention[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Retain: time.Hour, RetainOf: map[string]time.Duration{"long": 24 * time.Hour}, Policy: soon(1)})
	other, _ := g.inbox(t, inbox.Config{Consumer: "other", Retain: 1000 * time.Hour})
	long := event("a")
	long.Source = "long"
	for _, m := range []message.Message{event("a"), event("dead"), long} {
		o, err := in.Handle(t.Context(), m, g.failing(named("dead")))
		if err != nil || (o == inbox.DeadLettered) != (m.ID == "dead") {
			t.Errorf("%s: %q, %v", m.ID, o, err)
		}
	}
	o, err := other.Handle(t.Context(), event("a"), g.book)
	want(t, o, err, inbox.Applied)
	left := func(w int) {
		t.Helper()
		must(t, in.Sweep(t.Context()))
		if n := g.count(t, "select count(*) from once_inbox"); n != w {
			t.Errorf("%d IDs are left, want %d", n, w)
		}
	}
	age := func() {
		g.exec(t, "update once_inbox set processed_at = AGO(?) where processed_at is not null", (2 * time.Hour).Microseconds())
		g.exec(t, "update once_inbox set received_at = AGO(?)", (2000 * time.Hour).Microseconds())
	}
	left(4)
	age()
	left(3) // that of the short source is gone
	o, err = in.Handle(t.Context(), event("a"), g.book)
	want(t, o, err, inbox.Applied)
	o, err = in.Handle(t.Context(), event("dead"), g.book)
	want(t, o, err, inbox.DeadLettered)
	o, err = in.Handle(t.Context(), long, g.book)
	want(t, o, err, inbox.Duplicate)
	var many []message.Message // more than one statement deletes
	for i := range 1100 {
		many = append(many, event(fmt.Sprint("old", i)))
	}
	must(t, errorsOf(in.HandleBatch(t.Context(), many, func(context.Context, TX, message.Message) error { return nil })))
	age()
	left(3)
	g.exec(t, "update once_deadletter set redrive_at = NOW")
	run(t, in, g.book, func() bool { return g.letters(t) == 0 })
	o, err = in.Handle(t.Context(), event("dead"), g.book)
	want(t, o, err, inbox.Duplicate)
}

// TestResultsAreEncrypted: the result of Do is stored encrypted, a plain result of an earlier version is returned, and a result that cannot be decrypted is an error that says what to do.
func TestResultsAreEncrypted(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testResultsAreEncrypted[pgx.Tx], testResultsAreEncrypted[*sql.Tx])
}

func testResultsAreEncrypted[TX any](t *testing.T, g *fixture[TX]) {
	encrypter, err := once.NewEncrypter(bytes.Repeat([]byte{1}, 32))
	must(t, err)
	other, err := once.NewEncrypter(bytes.Repeat([]byte{2}, 32))
	must(t, err)
	sealed, _ := g.inbox(t, inbox.Config{Encrypter: encrypter})
	plain, _ := g.inbox(t, inbox.Config{})
	wrong, _ := g.inbox(t, inbox.Config{Encrypter: other})
	do := func(in *inbox.Inbox[TX], id string) (once.Result[string], error) {
		return inbox.Do(t.Context(), in, event(id), func(ctx context.Context, tx TX, m message.Message) (string, error) {
			return "card of " + m.ID, g.book(ctx, tx, m)
		})
	}
	wantResult := func(in *inbox.Inbox[TX], id string, replayed bool) {
		t.Helper()
		if r, err := do(in, id); err != nil || r.Value != "card of "+id || r.Replayed != replayed {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	wantNone := func(in *inbox.Inbox[TX], id string) {
		t.Helper()
		if r, err := do(in, id); once.CodeOf(err) != once.CodeNoResult || !strings.Contains(err.Error(), "Try: set the Encrypter") || r.Value != "" {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	wantResult(plain, "old", false)
	for _, id := range []string{"a", "b"} {
		wantResult(sealed, id, false)
	}
	stored := map[string][]byte{}
	must(t, g.store.Pool().Query(t.Context(), g.text("select event_id, result from once_inbox"), func(row sqlplane.Row) error {
		var id string
		var result []byte
		err := row.Scan(&id, &result)
		stored[id] = result
		return err
	}))
	for id, result := range stored {
		if readable := bytes.Contains(result, []byte("card")); readable != (id == "old") {
			t.Errorf("%s is stored as %q", id, result)
		}
	}
	for _, id := range []string{"a", "b", "old"} {
		wantResult(sealed, id, true)
	}
	wantNone(plain, "a")
	wantNone(wrong, "a")
	g.exec(t, "update once_inbox set result = ? where event_id = 'b'", stored["a"])
	wantNone(sealed, "b")
	g.wantBooked(t, "a", "b", "old")
}

// TestWaitingMessagesAreEncrypted: what waits in the database cannot be read without the key.
func TestWaitingMessagesAreEncrypted(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testEncrypted[pgx.Tx], testEncrypted[*sql.Tx])
}

func testEncrypted[TX any](t *testing.T, g *fixture[TX]) {
	encrypter, err := once.NewEncrypter(bytes.Repeat([]byte{1}, 32))
	must(t, err)
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Encrypter: encrypter, Policy: soon(1)})
	secret := func(m message.Message) message.Message {
		m.Payload, m.Headers = []byte("the secret"), map[string]string{"name": "a secret name"}
		m.CreatedAt, m.Trace = time.UnixMilli(1700000000000).UTC(), "00-11-22-01"
		return m
	}
	check := func(ctx context.Context, tx TX, m message.Message) error {
		if string(m.Payload) != "the secret" || m.Headers["name"] != "a secret name" || m.Type != "refund.succeeded" || m.Topic != "refunds" || m.Trace != "00-11-22-01" || !m.CreatedAt.Equal(time.UnixMilli(1700000000000)) {
			t.Errorf("%+v", m)
		}
		return g.book(ctx, tx, m)
	}
	o, err := in.Handle(t.Context(), secret(ordered("k", 2)), check)
	want(t, o, err, inbox.Parked)
	o, err = in.Handle(t.Context(), secret(ordered("k", 1)), func(context.Context, TX, message.Message) error { return errRefused })
	want(t, o, err, inbox.DeadLettered)
	for _, table := range []string{"once_inbox_parked", "once_deadletter"} {
		must(t, g.store.Pool().Query(t.Context(), g.text("select payload, headers from "+table), func(row sqlplane.Row) error {
			var payload, headers []byte
			err := row.Scan(&payload, &headers)
			if bytes.Contains(payload, []byte("secret")) || bytes.Contains(headers, []byte("secret")) || len(payload) == 0 || len(headers) == 0 {
				t.Errorf("%s: %q %q", table, payload, headers)
			}
			return err
		}))
	}
	g.exec(t, "update once_deadletter set redrive_at = NOW")
	run(t, in, check, func() bool { return len(g.booked(t)) == 2 })
	g.wantOnce(t, []string{"k"}, 2)

	// Without the key nothing is given up.
	o, err = in.Handle(t.Context(), secret(ordered("k", 4)), check)
	want(t, o, err, inbox.Parked)
	blind, told := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(1)})
	o, err = blind.Handle(t.Context(), ordered("k", 3), g.book)
	want(t, o, err, inbox.Applied)
	run(t, blind, check, func() bool { return len(told.of(inbox.EventDatabase)) > 1 })
	if n := g.parked(t); n != 1 || g.letters(t) != 0 {
		t.Errorf("%d parked, %d letters", n, g.letters(t))
	}
	run(t, in, check, func() bool { return len(g.booked(t)) == 4 })
	g.wantOnce(t, []string{"k"}, 4)
}
