package deadletter

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// killPlan is what a process does that is killed after its N-th call of the database.
type killPlan struct {
	Database harness.Database
	Action   string
	At       int
}

// CarryOut implements harness.Plan.
func (p killPlan) CarryOut(ctx context.Context) error {
	return p.Database.Use(ctx,
		func(s harness.Store[pgx.Tx]) error { return p.act(ctx, s) },
		func(s harness.Store[*sql.Tx]) error { return p.act(ctx, s) })
}

func (p killPlan) act(ctx context.Context, db sqlplane.Database) error {
	return act(ctx, deadletter.New(&mortal{db, p.At}, deadletter.Config{}), p.Action)
}

// mortal is a database that kills the process after so many calls. A COMMIT is a call.
type mortal struct {
	sqlplane.Database

	left int
}

func (m *mortal) called() {
	if m.left--; m.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m *mortal) Pool() sqlplane.Runner { return mortalRunner{m.Database.Pool(), m} }

func (m *mortal) Within(ctx context.Context, level store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	err := m.Database.Within(ctx, level, func(ctx context.Context, r sqlplane.Runner) error { return fn(ctx, mortalRunner{r, m}) })
	m.called()
	return err
}

type mortalRunner struct {
	sqlplane.Runner

	m *mortal
}

func (r mortalRunner) Exec(ctx context.Context, s store.Statement) (int64, error) {
	n, err := r.Runner.Exec(ctx, s)
	r.m.called()
	return n, err
}

func (r mortalRunner) Query(ctx context.Context, s store.Statement, each func(sqlplane.Row) error) error {
	err := r.Runner.Query(ctx, s, each)
	r.m.called()
	return err
}

func (r mortalRunner) Append(ctx context.Context, s store.Statement) error {
	err := r.Runner.Append(ctx, s)
	r.m.called()
	return err
}

// act does what an operator does, so that it can be repeated.
func act(ctx context.Context, l *deadletter.Letters, action string) error {
	o := signed
	switch action {
	case "redrive":
		open, err := l.Redrives(ctx)
		if err != nil {
			return err
		}
		if len(open) > 0 {
			_, err := l.Resume(ctx, open[0].UID)
			return err
		}
		_, err = l.Redrive(ctx, deadletter.Filter{}, o)
		return err
	case "discard":
		_, err := l.Discard(ctx, deadletter.Filter{}, "ada", "not needed")
		return err
	}
	list, _, err := l.List(ctx, deadletter.Filter{Limit: 1})
	if err != nil || list[0].Redrive == "" { // it was cancelled before
		return err
	}
	_, err = l.Cancel(ctx, list[0].Redrive, "ada", "wrong")
	return err
}

// TestRedriveKilled: a process is killed after each of its calls of the database, and the next one goes on. Every letter
// is chosen by one redrive, and what was done stands in the audit.
func TestRedriveKilled(t *testing.T) {
	testenv.Core(t)
	testenv.Need(t, "postgresql")
	for _, action := range []string{"redrive", "discard", "cancel"} {
		for _, kind := range []string{harness.SQLite, harness.Pgx, harness.MariaDB, harness.MySQL} {
			t.Run(action+", "+kind, func(t *testing.T) {
				t.Parallel()
				if kind == harness.MariaDB || kind == harness.MySQL {
					testenv.Sample(t, 6)
				}
				testRedriveKilled(t, harness.Migrated(t, kind, sets), action)
			})
		}
	}
}

func testRedriveKilled(t *testing.T, d harness.Database, action string) {
	const letters = 3
	g := open(t, d)
	harness.Loop(t, 5, func(at int) bool {
		g.prepared(t, action, letters)
		_, killed := harness.Start(t, killPlan{d, action, at}).End(t)
		must(t, act(t.Context(), g.letters(), action))
		g.wantActed(t, action, at, letters)
		return killed
	})
}

// prepared makes the letters that an action needs, and nothing else.
func (g *fixture) prepared(t *testing.T, action string, letters int) {
	t.Helper()
	for _, table := range []string{"once_deadletter", "once_deadletter_redrive", "once_audit", "once_outbox", "once_outbox_failed"} {
		g.exec(t, "delete from "+table)
	}
	g.stopped(t, letters)
	if action == "cancel" {
		o := signed
		o.Rate = 0.001
		g.redrive(t, deadletter.Filter{}, o)
	}
}

// wantActed checks what must hold after an action, wherever it was killed and repeated.
func (g *fixture) wantActed(t *testing.T, action string, at, letters int) {
	t.Helper()
	var got, wanted []int
	switch action {
	case "redrive":
		got = []int{
			g.count(t, "select count(*) from once_deadletter where state = 'dead' and redrive_at is not null"), g.count(t, "select sum(total) from once_deadletter_redrive"),
			g.count(t, "select count(*) from once_outbox_failed where next_at is not null"),
			g.count(t, "select count(*) from once_deadletter_redrive where state <> 'done'"), g.count(t, "select count(*) from once_audit") - g.count(t, "select count(*) from once_deadletter_redrive"),
		}
		wanted = []int{letters, letters, letters, 0, 0}
	case "discard":
		got = []int{
			g.count(t, "select count(*) from once_deadletter where state = 'discarded'"), g.count(t, "select count(*) from once_outbox where event_type = 'once.skipped'"),
			g.count(t, "select count(*) from once_outbox_failed where next_at is null"), g.count(t, "select count(*) from once_audit"),
		}
		wanted = []int{letters, letters, 0, 1}
	case "cancel":
		got = []int{
			g.count(t, "select count(*) from once_deadletter where state = 'dead' and redrive_at is null"), g.count(t, "select count(*) from once_outbox_failed where next_at is null"),
			g.count(t, "select count(*) from once_audit where action = 'cancel'"),
		}
		wanted = []int{letters, letters, 1}
	}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("%s, call %d: %v, want %v", action, at, got, wanted)
	}
}

// stopped adds messages to the outbox that were given up, with their letters, as a relay does.
func (g *fixture) stopped(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("01945a00-0000-7000-8000-%012d", i)
		g.exec(t, `insert into once_outbox (part, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) values (?, 't', ?, 1, ?, 'e', 's', ?, ?, ?, '', NOW)`,
			int64(i), id, id, []byte{}, []byte("x"), false)
		g.exec(t, "insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error) select part, id, topic, KEY, 3, null, NOW, 'no' from once_outbox where event_id = ?", id)
		g.bury(t, &letter.Letter{UID: id, ID: letter.ID{Origin: letter.OriginOutbox, Source: "s", EventID: id, Topic: "t", Key: id, Seq: 1}, Type: "e", Class: "permanent", Error: "no"})
	}
}
