package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/message"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// textStore keeps the texts that a relay sends, each with its last arguments.
type textStore[TX any] struct {
	sqlplane.SQL[TX]

	mu    sync.Mutex
	texts map[string]store.Statement
}

func (s *textStore[TX]) Pool() sqlplane.Runner { return textRunner[TX]{s.SQL.Pool(), s} }

func (s *textStore[TX]) keep(st store.Statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[st.SQL] = st
}

type textRunner[TX any] struct {
	sqlplane.Runner

	s *textStore[TX]
}

func (r textRunner[TX]) Exec(ctx context.Context, st store.Statement) (int64, error) {
	r.s.keep(st)
	return r.Runner.Exec(ctx, st)
}

func (r textRunner[TX]) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	r.s.keep(st)
	return r.Runner.Query(ctx, st, each)
}

// TestRelayPlansElsewhere: on SQLite, MariaDB and MySQL, too, no statement of a relay reads all messages, or all failures.
func TestRelayPlansElsewhere(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, kind := range []string{harness.SQLite, harness.MariaDB, harness.MySQL} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			on, db := harness.OpenSQL(t, migrated(t, kind))
			g := sqlFixture(kind, on, db)
			s := &textStore[*sql.Tx]{SQL: g.store, texts: map[string]store.Statement{}}
			g.fillSome(t, 1000)
			g.useAll(t, outbox.New[*sql.Tx](s, outbox.Config{}))
			g.fillSome(t, 8000)
			g.exec(t, "insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error) select part, id, topic, KEY, 1, NOW, NOW, 'no' from once_outbox where seq % 7 = 0")
			for _, table := range []string{"once_outbox", "once_outbox_failed"} {
				g.exec(t, map[sqlplane.Dialect]string{sqlplane.SQLite: "analyze ", sqlplane.MySQL: "analyze table "}[g.store.Dialect()]+table)
			}
			explained := 0
			for _, st := range s.texts {
				if strings.Contains(st.SQL, "once_outbox") && !strings.Contains(st.SQL, "1 = 0") {
					explained++
					for _, table := range scanned(t, kind, db, st) {
						t.Errorf("%s is read whole\n%s", table, st.SQL)
					}
				}
			}
			if whole := (store.Statement{SQL: "select count(*) from once_outbox where trace = 'x'"}); len(scanned(t, kind, db, whole)) == 0 {
				t.Error("vacuous: a statement that reads all messages is not found out")
			}
			if explained < 10 {
				t.Errorf("vacuous: %d statements were explained", explained)
			}
		})
	}
}

// fillSome adds messages of four topics, with and without a key.
func (g *fixture[TX]) fillSome(t *testing.T, n int) {
	t.Helper()
	var list []message.Message
	for i := range n {
		list = append(list, event(fmt.Sprint("topic", i%4), []string{"", "k1", "k2", "k3"}[i/4%4], "t"))
		if len(list) == 500 || i == n-1 {
			g.mustAdd(t, list...)
			list = nil
		}
	}
}

// useAll runs a relay that meets failures, keys that are freed, and a topic that is paused.
func (g *fixture[TX]) useAll(t *testing.T, box *outbox.Box[TX]) {
	t.Helper()
	b := newInbox()
	var mended atomic.Bool
	b.setRefuse(func(m message.Message) error {
		if m.Key == "k3" && m.Seq < 3 && !mended.Load() {
			return errRefused
		}
		return nil
	})
	e := newEvents()
	stop := start(t, g.relayOf(box, b, outbox.RelayConfig{Batch: 50, Policy: soon(forever), Observer: e}))
	b.waitFor(t, 700)
	e.wait(t, "some attempts", func(e outbox.Event) bool { return e.Message.Delivery >= 3 })
	must(t, stop())
	stop = start(t, g.relayOf(box, b, outbox.RelayConfig{Batch: 50, Policy: soon(forever), Observer: e}))
	mended.Store(true)
	g.waitEmpty(t)
	must(t, stop())
}

// scanned explains a statement, and returns the tables of the outbox that it reads from the first row to the last.
func scanned(t *testing.T, kind string, db *sql.DB, st store.Statement) (tables []string) {
	t.Helper()
	explain := map[string]string{harness.SQLite: "explain query plan ", harness.MariaDB: "explain ", harness.MySQL: "explain format=traditional "}[kind]
	rows, err := db.QueryContext(t.Context(), explain+st.SQL, st.Args...)
	must(t, err)
	defer func() { _ = rows.Close() }()
	skips := strings.Contains(st.SQL, "limit 1) union all") // SQLite calls the first entry of an index a scan, too
	names, err := rows.Columns()
	must(t, err)
	for rows.Next() {
		values, to := make([]sql.NullString, len(names)), make([]any, len(names))
		line := map[string]*sql.NullString{}
		for i, name := range names {
			to[i], line[name] = &values[i], &values[i]
		}
		must(t, rows.Scan(to...))
		if kind == harness.SQLite {
			if table, scans := strings.CutPrefix(line["detail"].String, "SCAN "); scans && !skips && isOfOutbox(strings.Fields(table)[0]) {
				tables = append(tables, line["detail"].String)
			}
			continue
		}
		table, access := line["table"].String, line["type"].String
		if written := strings.HasPrefix(st.SQL, "insert into "+table+" "); !written && (access == "ALL" || access == "index") && isOfOutbox(table) {
			tables = append(tables, table)
		}
	}
	must(t, rows.Err())
	return tables
}

// isOfOutbox reports whether a name is that of a table with messages or failures, or stands for one in the statements of a relay.
func isOfOutbox(name string) bool {
	switch name {
	case "once_outbox", "once_outbox_failed", "o", "f", "m":
		return true
	}
	return false
}
