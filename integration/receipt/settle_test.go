package receipt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/storetest"
	"github.com/oncelib/once/store/upkeep"
)

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

// settled is the answer of a Settle that runs beside the test.
type settled struct {
	receipt gateway.Receipt
	err     error
}

func settle(ctx context.Context, r gateway.Receipts, operation string) <-chan settled {
	answer := make(chan settled, 1)
	go func() {
		got, err := r.Settle(ctx, operation)
		answer <- settled{got, err}
	}()
	return answer
}

// TestSettleWaitsForTheService: while a transaction of the service has inserted the receipt and has not ended, Settle waits. Its end
// decides: after a commit the receipt is the answer, after a rollback a tombstone.
func TestSettleWaitsForTheService(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		s := newService(t, kind)
		r := s.table(t, time.Minute)
		for operation, commits := range map[string]bool{"commits": true, "rolls-back": false} {
			tx, err := s.work(t.Context(), operation, "{}")
			must(t, err)
			answer := settle(t.Context(), r, operation)
			s.untilWaiting(t)
			select {
			case got := <-answer:
				t.Errorf("%s: settled before the service has ended: %+v", operation, got)
			default:
			}
			if commits {
				must(t, tx.Commit())
			} else {
				must(t, tx.Rollback())
			}
			got := <-answer
			must(t, got.err)
			if got.receipt.Tombstone == commits {
				t.Errorf("%s: %+v", operation, got.receipt)
			}
			s.judge(t, operation, got.receipt)
		}
	})
}

// TestSettleGivesUpOnAServiceThatHangs: the outcome is unclear, and never a tombstone: the service commits later.
func TestSettleGivesUpOnAServiceThatHangs(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		s := newService(t, kind)
		tx, err := s.work(t.Context(), "hangs", "{}")
		must(t, err)
		// Its own bound, and that of the caller.
		if got, err := s.table(t, 50*time.Millisecond).Settle(t.Context(), "hangs"); err == nil {
			t.Errorf("settled while the service may commit: %+v", got)
		}
		r := s.table(t, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		answer := settle(ctx, r, "hangs")
		s.untilWaiting(t)
		cancel()
		if got := <-answer; got.err == nil {
			t.Errorf("settled while the service may commit: %+v", got.receipt)
		}
		must(t, tx.Commit())
		got, err := r.Settle(t.Context(), "hangs")
		must(t, err)
		if got.Tombstone || got.Status != 201 {
			t.Errorf("%+v", got)
		}
		s.judge(t, "hangs", got)
	})
}

// TestSettlersAgree: two gateways settle each operation, while the service commits it. All say the same, which is what the table of the
// service says.
func TestSettlersAgree(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		s := newService(t, kind)
		r := [...]gateway.Receipts{s.table(t, time.Minute), s.table(t, time.Minute)}
		receipts, tombstones := 0, 0
		for i := range 20 {
			operation := fmt.Sprintf("operation-%d", i)
			var service sync.WaitGroup
			work := func() { s.finished(t.Context(), operation) }
			if i == 0 {
				work()
			}
			a, b := settle(t.Context(), r[0], operation), settle(t.Context(), r[1], operation)
			var first settled
			if i == 1 {
				first = <-a
				work()
			} else {
				service.Go(work)
				first = <-a
			}
			second := <-b
			service.Wait()
			must(t, errors.Join(first.err, second.err))
			if !reflect.DeepEqual(first.receipt, second.receipt) {
				t.Errorf("%s: %+v and %+v", operation, first.receipt, second.receipt)
			}
			s.judge(t, operation, first.receipt)
			if first.receipt.Tombstone {
				tombstones++
			} else {
				receipts++
			}
		}
		testenv.Reportf(t, "%s: %d receipts, %d tombstones", kind, receipts, tombstones)
		if receipts == 0 || tombstones == 0 {
			t.Errorf("vacuous: %d receipts, %d tombstones", receipts, tombstones)
		}
	})
}

// TestEveryCallOfSettleFails: whichever call of the store fails, and in whatever way: Settle tells what is final, or that it is unclear, and
// the next one tells it.
func TestEveryCallOfSettleFails(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		s := newService(t, kind)
		r, faults := s.faulty(t, time.Minute)
		unclear, final := 0, 0
		harness.Loop(t, 6, func(at int) bool {
			operation := fmt.Sprintf("point-%d", at)
			faults.Arm(storetest.Plan{Nth: []int{at}})
			got, err := r.Settle(t.Context(), operation)
			if err == nil {
				final++
				s.judge(t, operation, got)
				return len(faults.Heal()) > 0
			}
			unclear++
			committed := s.finished(t.Context(), operation)
			hits := faults.Heal()
			for _, clear := range []storetest.Point{storetest.BeginRetry, storetest.CommitRetry, storetest.CommitLostApplied} {
				if slices.Contains(hits, clear) {
					t.Errorf("%v: another run, or a look, tells what has become of it: %v", hits, err)
				}
			}
			got, err = r.Settle(t.Context(), operation)
			must(t, err)
			if committed == got.Tombstone {
				t.Errorf("%v: the service has committed: %t, and then it was settled as %+v", hits, committed, got)
			}
			s.judge(t, operation, got)
			return true
		})
		testenv.Reportf(t, "%s: %d final, %d unclear", kind, final, unclear)
		if unclear < 2 || final < 2 {
			t.Errorf("vacuous: %d final, %d unclear", final, unclear)
		}
	})
}

// TestReceiptsOutliveTheirRequests: a sweep deletes what is older than its retention, in batches, and nothing that is younger: neither a
// receipt, whose operation would run again, nor a tombstone, behind which a slow forward would commit. To forget keeps an operation from
// running again.
func TestReceiptsOutliveTheirRequests(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		s := newService(t, kind)
		r := s.table(t, time.Minute)
		ctx := t.Context()
		const old = 1100 // more than two batches
		s.exec(t, "insert into once_receipt (operation, status) select concat('old-', n), 200 from (with recursive c as (select 1 as n union all select n + 1 from c where n < 900) select n from c) as many")
		for i := 900; i < old; i++ {
			s.exec(t, "insert into once_receipt (operation, status, tombstone) values (?, 0, true)", fmt.Sprintf("old-tombstone-%d", i))
		}
		s.exec(t, "update once_receipt set created_at = AGO(?)", (61 * time.Minute).Microseconds())
		for _, operation := range []string{"young", "buried", "forgotten"} {
			if operation != "buried" {
				s.finished(ctx, operation)
			} else if _, err := r.Settle(ctx, operation); err != nil {
				t.Error(err)
			}
		}
		s.exec(t, "update once_receipt set created_at = AGO(?) where operation in ('young', 'buried')", (59 * time.Minute).Microseconds())
		if rows, err := r.Sweep(ctx, 59*time.Minute); err == nil || rows != 0 {
			t.Errorf("a retention of less than an hour: %d rows, %v", rows, err)
		}
		counted, err := r.Count(ctx, receipt.MinRetain)
		must(t, err)
		rows, err := r.Sweep(ctx, receipt.MinRetain)
		must(t, err)
		if rows != old || counted != old {
			t.Errorf("%d rows deleted, %d counted, want %d", rows, counted, old)
		}
		for operation, tombstone := range map[string]bool{"young": false, "buried": true} {
			if got, found, err := r.Look(ctx, operation); err != nil || !found || got.Tombstone != tombstone {
				t.Errorf("%s: %+v, %v, %v", operation, got, found, err)
			}
			if s.finished(ctx, operation) {
				t.Errorf("%s runs again", operation)
			}
		}
		if found, err := r.Forget(ctx, "forgotten"); err != nil || !found {
			t.Errorf("forget: %v, %v", found, err)
		}
		got, err := r.Settle(ctx, "forgotten")
		want := gateway.Receipt{Operation: "forgotten", Fingerprint: "f-forgotten", Status: 201}
		if err != nil || !reflect.DeepEqual(got, want) || s.finished(ctx, "forgotten") {
			t.Errorf("forgotten: %+v, %v, want %+v", got, err, want)
		}
		if found, err := r.Forget(ctx, "absent"); err != nil || found {
			t.Errorf("forget what is absent: %v, %v", found, err)
		}
	})
}

// TestReceiptsAreArchivedBeforeTheyGo: a receipt is in the archive as it was stored, also one whose body is too large for a gateway, before it is
// deleted. What an archive refuses stays. Rows that are large come in batches that fit in memory.
func TestReceiptsAreArchivedBeforeTheyGo(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		s := newService(t, kind)
		ctx := t.Context()
		large := bytes.Repeat([]byte{0, 1, 0xff}, 1<<20)
		for i := range 7 {
			s.exec(t, "insert into once_receipt (operation, fingerprint, status, header, body) values (?, 'f', 201, ?, ?)", fmt.Sprintf("large-%d", i), `{"A":"<b>"}`, large)
		}
		s.exec(t, "insert into once_receipt (operation, status, tombstone) values ('buried', 0, true)")
		s.exec(t, "update once_receipt set created_at = AGO(?)", (61 * time.Minute).Microseconds())
		s.exec(t, "insert into once_receipt (operation, status) values ('young', 200)")

		count := func() (n int) {
			must(t, s.db.QueryRowContext(ctx, "select count(*) from once_receipt").Scan(&n))
			return n
		}
		full := errors.New("the disk is full")
		refusing, _ := s.faultyBy(t, receipt.Config{Archive: func(context.Context, []upkeep.Expired) error { return full }})
		if rows, err := refusing.Sweep(ctx, receipt.MinRetain); !errors.Is(err, full) || rows != 0 || count() != 9 {
			t.Errorf("%d rows deleted, %d left, %v", rows, count(), err)
		}
		var kept []upkeep.Expired
		batches := 0
		r, _ := s.faultyBy(t, receipt.Config{MaxBody: 1000, Archive: func(_ context.Context, rows []upkeep.Expired) error {
			if batches++; count()+len(kept) != 9 {
				t.Errorf("%d rows are left, and %d archived", count(), len(kept))
			}
			kept = append(kept, rows...)
			return nil
		}})
		if rows, err := r.Sweep(ctx, receipt.MinRetain); err != nil || rows != 8 || count() != 1 || len(kept) != 8 || batches < 3 {
			t.Errorf("%d rows deleted, %d left, %d archived in %d batches, %v", rows, count(), len(kept), batches, err)
		}
		for _, e := range kept {
			var row struct {
				Operation, Fingerprint, Header string
				Status                         int
				Body                           []byte
				Tombstone                      bool
			}
			if err := json.Unmarshal(e.Row, &row); err != nil || e.Table != "once_receipt" || row.Operation != e.Key || e.At.After(time.Now()) || time.Since(e.At) > time.Hour {
				t.Errorf("%s: %v: %.200s", e.Key, err, e.Row)
			}
			if want := e.Key != "buried"; row.Tombstone == want || want && (row.Status != 201 || row.Fingerprint != "f" || !strings.Contains(row.Header, "<b>") || !bytes.Equal(row.Body, large)) {
				t.Errorf("%s: %.200s", e.Key, e.Row)
			}
		}
	})
}

// TestReplicasAreRefused: on a server that is read-only, also for a user who may write there, nothing is settled, and Check says so at the
// start. Check leaves nothing behind.
func TestReplicasAreRefused(t *testing.T) {
	testenv.Prove(t)
	for _, kind := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, d := harness.NewServer(t, kind, false)
			must(t, d.Migrate(t.Context(), []migration.Set{receipt.Migrations}, charge))
			s := serviceOn(t, d)
			r := s.table(t, time.Minute)
			must(t, r.Check(t.Context()))
			s.exec(t, "insert into once_receipt (operation, status) values ('replicated', 200)")
			if s.dialect == sqlplane.MySQL {
				s.exec(t, "set global read_only = on")
			} else {
				s.exec(t, "alter system set default_transaction_read_only = on")
				must(t, server.Kill())
				must(t, server.Restart(t.Context()))
				r = s.table(t, time.Minute)
			}
			if err := r.Check(t.Context()); err == nil {
				t.Error("check: no error")
			}
			if got, err := r.Settle(t.Context(), "new"); err == nil {
				t.Errorf("settled on a replica: %+v", got)
			}
			if got, err := r.Settle(t.Context(), "replicated"); err != nil || got.Status != 200 {
				t.Errorf("a receipt that is there: %+v, %v", got, err)
			}
			var rows int
			harness.Until(t, func() error { // a connection from before the restart fails
				return s.db.QueryRowContext(t.Context(), "select count(*) from once_receipt").Scan(&rows)
			})
			if rows != 1 {
				t.Errorf("%d rows", rows)
			}
		})
	}
	bare := harness.Migrated(t, harness.SQLite, nil)
	if err := serviceOn(t, bare).table(t, time.Minute).Check(t.Context()); !errors.Is(err, store.ErrNotMigrated) {
		t.Errorf("no table: %v", err)
	}
}
