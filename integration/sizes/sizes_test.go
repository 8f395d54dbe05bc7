package sizes

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var update = flag.Bool("update", false, "write what was measured into docs/sizes.md")

const page = "../../docs/sizes.md"

// How many rows are written: by statements, and by operations, of which each commits.
const (
	many = 600
	few  = 200
)

// body is an answer or a payload of 200 bytes that does not compress.
func body(i int) []byte {
	text := ""
	for n := 0; len(text) < 200; n++ {
		text += strconv.FormatUint(uint64(i*1_000_003+n)*0x9E3779B97F4A7C15, 36)
	}
	return []byte(text[:200])
}

// work writes rows of a capability. It is measured in a database of its own.
type work struct {
	name  string // as docs/sizes.md has it
	rows  int
	write func(ctx context.Context, s *sqlstore.Store) error
}

var works = []work{
	{"a key, with an answer of 200 bytes", few, func(ctx context.Context, s *sqlstore.Store) error {
		engine := once.New(s, once.Config{Observer: once.Discard})
		return each(few, func(i int) error {
			_, err := once.Do(ctx, engine, once.Operation{Scope: "acme POST /orders", Key: once.NewKey(), Fingerprint: once.FingerprintOf(body(i))}, func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := s.On(tx).Exec(ctx, harness.Text(s, "select 1"))
				return string(body(i)), err
			})
			return err
		})
	}},
	{"a message of 200 bytes that waits, with a key that no other message has", many, func(ctx context.Context, s *sqlstore.Store) error { return add(ctx, s, true) }},
	{"a message of 200 bytes that waits, without a key", many, func(ctx context.Context, s *sqlstore.Store) error { return add(ctx, s, false) }},
	{"a message of 200 bytes that was delivered and is kept", many, func(ctx context.Context, s *sqlstore.Store) error {
		if err := add(ctx, s, false); err != nil {
			return err
		}
		const columns = "part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at, op_scope, op_key"
		_, err := s.Pool().Exec(ctx, harness.Text(s, "insert into once_outbox_sent ("+columns+", sent_at) select "+columns+", created_at from once_outbox"))
		if err == nil {
			_, err = s.Pool().Exec(ctx, harness.Text(s, emptied[s.Dialect()]))
		}
		return err
	}},
	{"an ID of an inbox (`AnyOrder`)", many, func(ctx context.Context, s *sqlstore.Store) error { return receive(ctx, s, inbox.AnyOrder) }},
	{"a key of an inbox (`InOrder`)", many, func(ctx context.Context, s *sqlstore.Store) error { return receive(ctx, s, inbox.InOrder) }},
	{"an attempt of a webhook, with 100 bytes of its answer", few, func(ctx context.Context, s *sqlstore.Store) error {
		return each(few, func(i int) error {
			_, err := s.Pool().Exec(ctx, harness.Text(s, "insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host) values (?, ?, NOW, 1200, 200, '', 100, ?, false, '', 'hooks.example.com')",
				int64(i%20), int64(i), body(i)[:100]))
			return err
		})
	}},
	{"leased work with one call, done", few, func(ctx context.Context, s *sqlstore.Store) error {
		jobs := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard})
		return each(few, func(i int) error {
			_, err := once.Do(ctx, jobs, once.Operation{Scope: "acme POST /refunds", Key: once.NewKey()}, func(ctx context.Context, run *lease.Run) (string, error) {
				return lease.Call(ctx, run, "charge", func(context.Context, string) (string, error) { return string(body(i)), nil }, lease.CallPolicy{SafeToRepeat: true})
			})
			return err
		})
	}},
	{"a saga of two steps that waits after the first step", few, func(ctx context.Context, s *sqlstore.Store) error {
		first := saga.Tx("reserve", func(ctx context.Context, tx *sql.Tx, i int) (string, error) { return string(body(i)), nil })
		second := saga.Tx("ship", func(context.Context, *sql.Tx, int) (string, error) { return "", saga.Again(time.Hour) })
		order := saga.New("order", func(ctx saga.Context, i int) (string, error) {
			if _, err := first.Do(ctx, i); err != nil {
				return "", err
			}
			return second.Do(ctx, i)
		}, first, second)
		runner := saga.NewRunner(s, saga.Config{Observer: saga.Observers()}, order)
		return each(few, func(i int) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := saga.Do(ctx, runner, order, saga.ID{Tenant: "acme", Key: once.NewKey()}, i)
				done <- err
			}()
			for {
				var n int
				err := s.Pool().Query(ctx, harness.Text(s, "select count(*) from once_saga_due"), func(row sqlplane.Row) error { return row.Scan(&n) })
				if n > i || err != nil {
					return err
				}
				select {
				case err := <-done:
					return err
				case <-time.After(time.Millisecond):
				}
			}
		})
	}},
	{"a receipt with an answer of 200 bytes", few, func(ctx context.Context, s *sqlstore.Store) error {
		return each(few, func(i int) error {
			_, err := s.Pool().Exec(ctx, harness.Text(s, "insert into once_receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)", once.NewKey(), strings.Repeat("f", 64), body(i)))
			return err
		})
	}},
}

var emptied = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "truncate once_outbox", sqlplane.MySQL: "truncate once_outbox", sqlplane.SQLite: "delete from once_outbox",
}

func each(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func add(ctx context.Context, s *sqlstore.Store, keyed bool) error {
	engine, box := once.New(s, once.Config{Observer: once.Discard}), outbox.New(s, outbox.Config{Source: "/orders"})
	var list []message.Message
	_ = each(many, func(i int) error {
		m := message.Message{Topic: "orders", Type: "order.placed", Payload: body(i)}
		if keyed {
			m.Key = "acct_" + strconv.Itoa(100_000+i)
		}
		list = append(list, m)
		return nil
	})
	_, err := once.Do(ctx, engine, once.Operation{Scope: "acme", Key: once.NewKey()}, func(ctx context.Context, tx *sql.Tx) (string, error) { return "", box.Add(ctx, tx, list...) })
	return err
}

func receive(ctx context.Context, s *sqlstore.Store, order inbox.Order) error {
	in := inbox.New(once.New(s, once.Config{Observer: once.Discard}), inbox.Config{Consumer: "billing", Order: order, Observer: inbox.Observers()})
	var list []message.Message
	_ = each(many, func(i int) error {
		list = append(list, message.Message{ID: once.NewKey(), Source: "/orders", Topic: "orders", Type: "order.placed", Key: "acct_" + strconv.Itoa(100_000+i), Seq: 1, Payload: body(i)})
		return nil
	})
	for _, r := range in.HandleBatch(ctx, list, func(context.Context, *sql.Tx, message.Message) error { return nil }) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

var migrations = []migration.Set{outbox.Migrations, inbox.Migrations, deadletter.Migrations, operate.Migrations, webhook.Migrations, saga.Migrations, receipt.Migrations}

// used is how many bytes the tables of once have with their indexes, as the database says.
func used(ctx context.Context, s *sqlstore.Store) (n int64, err error) {
	ask := func(query string) error {
		return s.Pool().Query(ctx, harness.Text(s, query), func(row sqlplane.Row) error { return row.Scan(&n) })
	}
	switch s.Dialect() {
	case sqlplane.SQLite:
		return n, ask("select (select page_count from pragma_page_count()) * (select page_size from pragma_page_size()) - (select freelist_count from pragma_freelist_count()) * (select page_size from pragma_page_size())")
	case sqlplane.PostgreSQL:
		return n, ask("select sum(pg_total_relation_size(c.oid))::bigint from pg_class c where c.relkind = 'r' and c.relname like 'once%'")
	case sqlplane.MySQL:
	}
	// The sizes of a table are those of the last analysis.
	var names []string
	err = s.Pool().Query(ctx, harness.Text(s, "select table_name from information_schema.tables where table_schema = database()"), func(row sqlplane.Row) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	})
	if err == nil {
		err = s.Pool().Query(ctx, harness.Text(s, "analyze table "+strings.Join(names, ", ")), func(sqlplane.Row) error { return nil })
	}
	if err != nil {
		return 0, err
	}
	return n, ask("select cast(sum(data_length + index_length) as signed) from information_schema.tables where table_schema = database()")
}

// kinds are the columns of the page.
var kinds = []string{harness.Postgres, harness.MySQL, harness.MariaDB, harness.SQLite}

// TestSizesMatchTheDocs: a row takes as many bytes as docs/sizes.md says, give or take a half: versions of databases differ. -update writes the page.
func TestSizesMatchTheDocs(t *testing.T) {
	testenv.Both(t)
	text, err := os.ReadFile(page)
	harness.Must(t, err)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			harness.Cell(t, kind == harness.SQLite)
			for _, w := range works {
				s, _ := harness.OpenSQL(t, harness.Migrated(t, kind, migrations))
				before, err := used(t.Context(), s)
				harness.Must(t, err)
				if err := w.write(t.Context(), s); err != nil {
					t.Fatalf("%s: %v", w.name, err)
				}
				after, err := used(t.Context(), s)
				harness.Must(t, err)
				measured := float64(after-before) / float64(w.rows)
				if *update {
					text = written(t, text, w.name, kind, measured)
					continue
				}
				if said := said(t, text, w.name, kind); measured < said/2 || measured > said*2 {
					t.Errorf("%s: %.0f bytes, docs/sizes.md says %.0f. Try: go test -run TestSizesMatchTheDocs -update ./sizes", w.name, measured, said)
				}
			}
		})
	}
	if *update {
		harness.Must(t, os.WriteFile(page, text, 0o644))
	}
}

// cells are those of the line of a row.
func cells(t *testing.T, text []byte, name string) (line string, cells []string) {
	t.Helper()
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(l, "| "+name+" |") {
			return l, strings.Split(l, " | ")
		}
	}
	t.Fatalf("docs/sizes.md has no row %q", name)
	return "", nil
}

func said(t *testing.T, text []byte, name, kind string) float64 {
	t.Helper()
	_, c := cells(t, text, name)
	n, err := strconv.ParseFloat(strings.Trim(c[1+slices.Index(kinds, kind)], " |\n"), 64)
	harness.Must(t, err)
	return n
}

// written is the page with another figure, rounded to ten bytes.
func written(t *testing.T, text []byte, name, kind string, n float64) []byte {
	t.Helper()
	line, c := cells(t, text, name)
	at := 1 + slices.Index(kinds, kind)
	c[at] = fmt.Sprint(int(n/10+0.5) * 10)
	now := strings.Join(c, " | ")
	if at == len(c)-1 {
		now += " |\n"
	}
	return []byte(strings.Replace(string(text), line, now, 1))
}
