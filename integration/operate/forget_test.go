package operate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// personal is what must be gone.
const personal = "ada@example.com"

// done executes an operation that stores something personal, and tries it once more.
func (g *testDB) done(tb testing.TB, cfg once.Config, scope, key string) once.Operation {
	tb.Helper()
	var err error
	if cfg.Encrypter, err = once.NewEncrypter(make([]byte, 32)); err != nil {
		tb.Fatal(err)
	}
	op := once.Operation{Scope: scope, Key: key, Fingerprint: once.FingerprintOf([]byte("a")), Request: []byte(personal)}
	_, err = once.Do(context.Background(), once.New(g.store, cfg), op, func(context.Context, *sql.Tx) (string, error) { return personal, nil })
	must(tb, err)
	must(tb, g.attempts.Write(context.Background(), []attempts.Attempt{attemptAt(1, scope, key), attemptAt(2, scope, key)}))
	return op
}

// leased makes an operation that an owner works on, or whose outcome is unknown.
func (g *testDB) leased(tb testing.TB, scope, key string, state store.State) {
	tb.Helper()
	_, err := g.store.Swap(context.Background(), store.Change{
		ID: store.ID{Scope: scope, Key: key}, Lease: time.Hour,
		Next: store.Record{State: state, Fence: 3, Nonce: make([]byte, 16), RecoveryPoint: "paid", CallStarted: true, Data: []byte(`{"phases":[{"name":"paid","value":"` + personal + `"}],"call":{"phase":"mail"}}`)},
	})
	must(tb, err)
}

// undecided is what names an unknown outcome.
func undecided(tb testing.TB, ops store.Operations, id store.ID) string {
	tb.Helper()
	rec, err := ops.Read(context.Background(), id)
	must(tb, err)
	p, err := lease.ProgressOf(id, rec)
	must(tb, err)
	return p.CallID
}

// leftovers counts what a forgotten operation must not have any more.
func (g *testDB) leftovers(tb testing.TB, scope string) int {
	tb.Helper()
	return g.count(tb, `select count(*) from once_operation where scope = $1 and (head is not null or body is not null or request is not null or trace is not null or data is not null)`, scope) +
		g.count(tb, `select count(*) from once_attempt where scope = $1 and (request_id <> '' or correlation_id <> '')`, scope)
}

// TestForgottenNeverExecutes: nothing is left of what was said, and nothing is done
// again.
func TestForgottenNeverExecutes(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		for i, key := range append([]string{"hashed"}, nasty...) {
			cfg := once.Config{HashKeys: i == 0}
			op := g.done(t, cfg, "s "+key, key)
			before := g.leftovers(t, op.Scope)
			by := operate.By{Who: "ada", Reason: "for " + nasty[i%len(nasty)]}
			o := operate.ForgetRequest{Scope: op.Scope, Key: key, Preview: true}
			preview, err := g.keys.Forget(t.Context(), by, o)
			must(t, err)
			if before == 0 || g.leftovers(t, op.Scope) != before {
				t.Fatalf("%q: a preview has left %d of %d", key, g.leftovers(t, op.Scope), before)
			}
			o.Preview = false
			for n := range 2 { // twice does no harm
				detail, err := g.keys.Forget(t.Context(), by, o)
				must(t, err)
				if n == 0 && (detail != preview || !strings.Contains(detail, "and its request erased")) {
					t.Errorf("%q: done %q, the preview was %q", key, detail, preview)
				}
			}
			if n := g.leftovers(t, op.Scope); n != 0 {
				t.Errorf("%q: %d leftovers", key, n)
			}
			never := func(context.Context, *sql.Tx) (string, error) { t.Errorf("%q was executed again", key); return "", nil }
			if _, err := once.Do(t.Context(), once.New(g.store, cfg), op, never); once.CodeOf(err) != once.CodeNoResult || once.EffectOf(err) != once.EffectApplied {
				t.Errorf("%q: %v", key, err)
			}
			op.Fingerprint = once.FingerprintOf([]byte("b"))
			if _, err := once.Do(t.Context(), once.New(g.store, cfg), op, never); once.CodeOf(err) != once.CodeMismatch {
				t.Errorf("%q, another request: %v", key, err)
			}
			tl, err := g.keys.Timeline(t.Context(), op.Scope, key, 9)
			must(t, err)
			if len(tl.Audit) != 2 || tl.Audit[0].Detail != preview || tl.Audit[0].Reason != by.Reason || tl.Audit[0].Who != "ada" || tl.Audit[0].KeyHash != once.KeyHash(key) {
				t.Errorf("%q: audit %+v", key, tl.Audit)
			}
		}
	})
}

// TestForgetWithoutAttemptLog: the store of a gateway has no attempt log. Its operations are forgotten, and the acts of operators are shown.
func TestForgetWithoutAttemptLog(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		g.done(t, once.Config{}, "s", "k")
		g.exec(t, "drop table once_attempt")
		detail, err := g.keys.Forget(t.Context(), operate.By{Who: "ada", Reason: "asked"}, operate.ForgetRequest{Scope: "s", Key: "k"})
		must(t, err)
		v, err := g.keys.Show(t.Context(), operate.KeyQuery{Key: "k"})
		must(t, err)
		if len(v.Audit) != 1 || v.Audit[0].Detail != detail || v.Operation.ResultBytes != 0 || v.Attempts == nil {
			t.Errorf("%q: %+v", detail, v)
		}
	})
}

// TestForgottenOverHTTP: what a client is told.
func TestForgottenOverHTTP(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		executed := 0
		engine := once.New(g.store, once.Config{Cache: 1 << 20})
		h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Route: func(*http.Request) string { return "POST /x" }},
			func(w http.ResponseWriter, _ *http.Request, _ *sql.Tx) {
				executed++
				fmt.Fprint(w, personal)
			})
		post := func() *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("x"))
			r.Header.Set("Idempotency-Key", "k")
			h.ServeHTTP(w, r)
			return w
		}
		post()
		if w := post(); w.Body.String() != personal {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		_, err := operate.NewKeys(g.plane, engine).Forget(t.Context(), operate.By{Who: "ada", Reason: "asked"}, operate.ForgetRequest{Scope: "global POST /x", Key: "k"})
		must(t, err)
		w := post()
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `"code":"CONFLICT.idempotency.result_unavailable"`) ||
			!strings.Contains(w.Body.String(), `"safe_new_key":false`) || strings.Contains(w.Body.String(), personal) || executed != 1 {
			t.Errorf("%d %s, executed %d times", w.Code, w.Body, executed)
		}
	})
}

// TestForgetRefuses: what is still needed stays, and so does everything else.
func TestForgetRefuses(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		g.leased(t, "s", "running", store.StateRunning)
		g.leased(t, "s", "unknown", store.StateUnknown)
		g.done(t, once.Config{}, "s", "done")
		must(t, g.attempts.Write(t.Context(), []attempts.Attempt{attemptAt(11, "s", "running"), attemptAt(12, "s", "unknown")}))
		before := g.leftovers(t, "s")
		for _, c := range []struct {
			o    operate.ForgetRequest
			want error
		}{
			{operate.ForgetRequest{Key: "running"}, operate.ErrRunning},
			{operate.ForgetRequest{Key: "unknown"}, operate.ErrUnknown},
			{operate.ForgetRequest{Key: "nobody"}, operate.ErrNothing},
			{operate.ForgetRequest{Key: "done", Scope: "S"}, operate.ErrNothing},
			{operate.ForgetRequest{Key: "d%", Scope: "%"}, operate.ErrNothing},
		} {
			if c.o.Scope == "" {
				c.o.Scope = "s"
			}
			if _, err := g.keys.Forget(t.Context(), ada, c.o); !errors.Is(err, c.want) || !contains(err, "Try: ") {
				t.Errorf("%+v: %v, want %v", c.o, err, c.want)
			}
		}
		for says, c := range map[string]struct {
			by operate.By
			o  operate.ForgetRequest
		}{
			"By.Reason is":             {operate.By{Who: "ada"}, operate.ForgetRequest{Scope: "s", Key: "done"}},
			"By.Reason":                {operate.By{Who: "ada", Reason: " "}, operate.ForgetRequest{Scope: "s", Key: "done"}},
			"By.Who":                   {operate.By{Reason: "x"}, operate.ForgetRequest{Scope: "s", Key: "done"}},
			"operate: ForgetRequest.S": {ada, operate.ForgetRequest{Key: "done"}},
			"operate: ForgetRequest.K": {ada, operate.ForgetRequest{Scope: "s"}},
		} {
			if _, err := g.keys.Forget(t.Context(), c.by, c.o); !contains(err, says) || !contains(err, "Try: ") {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if after, audit := g.leftovers(t, "s"), g.count(t, "select count(*) from once_audit"); after != before || audit != 0 {
			t.Errorf("refused, and yet %d of %d are left, %d entries", after, before, audit)
		}
	})
}

// TestForgetSeesWhatIsCommittedMeanwhile: an operation that another transaction is about to change
// is judged by what that one commits.
func TestForgetSeesWhatIsCommittedMeanwhile(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	waits := map[sqlplane.Dialect]string{
		sqlplane.PostgreSQL: "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
		sqlplane.MySQL:      "select count(*) from information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = database() and t.trx_state = 'LOCK WAIT'",
	}
	on(t, func(t *testing.T, g *testDB) {
		if g.dialect == sqlplane.SQLite {
			return // which has one transaction that writes
		}
		g.done(t, once.Config{}, "s", "k")
		before := g.leftovers(t, "s")
		tx, err := g.db.BeginTx(t.Context(), nil)
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.ExecContext(t.Context(), "update once_operation set state = 1")
		must(t, err)
		forgotten := make(chan error, 1)
		go func() {
			_, err := g.keys.Forget(context.Background(), ada, forgetK)
			forgotten <- err
		}()
		for g.count(t, waits[g.dialect]) == 0 && len(forgotten) == 0 {
			<-time.After(150 * time.Millisecond) // InnoDB does not refresh innodb_trx for those who read it more often
		}
		must(t, tx.Commit())
		if err := <-forgotten; !errors.Is(err, operate.ErrRunning) || g.leftovers(t, "s") != before {
			t.Errorf("%v, %d of %d are left", err, g.leftovers(t, "s"), before)
		}
	})
}

// TestReleaseFreesAnUnknownKey: the key of an unknown outcome of which nothing is saved is new again, and who has said so is known.
func TestReleaseFreesAnUnknownKey(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		id := store.ID{Scope: "s", Key: "k"}
		_, err := g.store.Swap(t.Context(), store.Change{ID: id, Next: store.Record{State: store.StateUnknown, Fence: 3, Nonce: make([]byte, 16)}})
		must(t, err)
		ops, ok := store.As[store.Operations](g.plane)
		if !ok {
			t.Fatal("no operations")
		}
		how := lease.Resolution{CallID: undecided(t, ops, id), RunAgain: true, Who: "ada", Reason: "the bank has no such payment"}
		must(t, lease.Resolve(t.Context(), ops, id, how))
		if err := lease.Resolve(t.Context(), ops, id, how); store.KindOf(err) != store.KindTaken {
			t.Errorf("a second time: %v", err)
		}
		r, err := once.Do(t.Context(), once.New(g.store, once.Config{}), once.Operation{Scope: "s", Key: "k"}, func(context.Context, *sql.Tx) (string, error) { return "v", nil })
		if err != nil || r.Replayed {
			t.Errorf("%+v, %v", r, err)
		}
		p, err := g.keys.Audit(t.Context(), operate.AuditFilter{Scope: "s"})
		list := p.Items
		if err != nil || len(list) != 1 || list[0].Action != "resolve" || list[0].Detail != "unknown, fence 3, call "+how.CallID+": runs again" || time.Since(list[0].At).Abs() > time.Minute {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestResolveAudited: a decision and its entry in the audit are one commit. Where one cannot be written, neither is.
func TestResolveAudited(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		g.leased(t, "s", "k", store.StateUnknown)
		id := store.ID{Scope: "s", Key: "k"}
		_, err := g.db.ExecContext(t.Context(), "alter table once_audit rename to once_audit_gone")
		must(t, err)
		ops, _ := store.As[store.Operations](g.plane)
		how := lease.Resolution{CallID: undecided(t, ops, id), Failure: &once.Failure{Code: "no"}, Who: "ada", Reason: "asked"}
		if err := lease.Resolve(t.Context(), ops, id, how); err == nil {
			t.Error("resolved without an audit")
		}
		rec, err := ops.Read(t.Context(), id)
		must(t, err)
		if rec.State != store.StateUnknown || rec.Fence != 3 {
			t.Errorf("%+v", rec)
		}
		_, err = g.db.ExecContext(t.Context(), "alter table once_audit_gone rename to once_audit")
		must(t, err)
		for range 3 { // who has got no answer repeats it
			must(t, lease.Resolve(t.Context(), ops, id, how))
		}
		if n := g.count(t, "select count(*) from once_audit where action = 'resolve'"); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

// TestForgetAttemptsAlone: there may be attempts without a record.
func TestForgetAttemptsAlone(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *testDB) {
		must(t, g.attempts.Write(t.Context(), []attempts.Attempt{attemptAt(1, "s", "k"), attemptAt(2, "other", "k"), attemptAt(3, "s", "K")}))
		detail, err := g.keys.Forget(t.Context(), operate.By{Who: "ada", Reason: "asked"}, operate.ForgetRequest{Scope: "s", Key: "k"})
		if err != nil || detail != "request IDs of 1 attempts erased" || g.leftovers(t, "s")+g.leftovers(t, "other") != 2 {
			t.Errorf("%q, %v, %d and %d left", detail, err, g.leftovers(t, "s"), g.leftovers(t, "other"))
		}
	})
}
