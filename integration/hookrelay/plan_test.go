package hookrelay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// texts keeps the statements of a relay, the last of each kind.
type texts struct {
	mu   sync.Mutex
	last map[string]store.Statement
}

func (k *texts) keep(st store.Statement) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for kind, text := range map[string]string{"due": ", x.event)", "event": "data, encrypted from once_webhook_event", "hint": "tenant, created_at from once_webhook_event", "delivered": "delete from once_webhook_delivery d using", "failed": "update once_webhook_delivery d"} {
		if strings.Contains(st.SQL, text) {
			k.last[kind] = st
		}
	}
	return nil
}

// fill adds deliveries: of endpoint i%n+1, due after so many seconds.
const fill = `insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select i % $2 + 1, i + $4::bigint, 0, now() + $3::int * interval '1 second', 0, '', now() from generate_series(1, $1::int) i`

// errUndone undoes a transaction.
var errUndone = errors.New("undone")

var buffersRead = regexp.MustCompile(`Buffers: shared (?:hit=(\d+))?(?: ?read=(\d+))?`)

// TestPlansReadFewPages: however many deliveries wait, at all endpoints, at one, or until later, a claim reads few pages for each endpoint and each row; and no statement of a relay reads a table or sorts
// what waits. Statistics are those of an empty table, or new ones.
func TestPlansReadFewPages(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx}, func(t *testing.T, kind string) {
		const endpoints = 150
		g := newFixture(t, kind)
		g.exec(t, "alter table once_webhook_delivery set (autovacuum_enabled = false)")
		g.exec(t, "analyze once_webhook_delivery")
		var list []endpoint
		for i := range endpoints {
			list = append(list, endpoint{id: int64(i + 1), uid: fmt.Sprint("ep_", i), tenant: "a"})
		}
		g.endpoints(t, list...)
		for i := range endpoints {
			g.to.set(fmt.Sprint("ep_", i), func(n int, _ *http.Request, _ http.ResponseWriter) int {
				if n == 1 {
					return 500
				}
				return 200
			})
		}
		g.send(t, "a", "e", 4)
		k, seen := &texts{last: map[string]store.Statement{}}, newEvents()
		stop := g.start(t, &watch{before: k.keep}, webhook.RelayConfig{Observer: seen, Schedule: soon(10)})
		g.settled(t, seen, 4*endpoints)
		stop()
		ids := make([]string, endpoints)
		for i := range ids {
			ids[i] = strconv.Itoa(i + 1)
		}
		due := k.last["due"]
		if strings.Count(due.SQL, "unnest") != 1 || len(k.last) != 5 {
			t.Fatalf("%d kinds of statements were seen, and a claim is %s", len(k.last), due.SQL)
		}
		from := "{" + strings.Repeat("0,", endpoints-1) + "0}"
		due.Args = []any{"{" + strings.Join(ids, ",") + "}", from, from}
		for _, c := range []struct {
			what string
			fill [][4]int // rows, endpoints, due in seconds, after event
		}{
			{"all endpoints", [][4]int{{100_000, endpoints, -60, 1000}}},
			{"one endpoint", [][4]int{{100_000, 1, -60, 1000}}},
			{"later", [][4]int{{100_000, endpoints, 3600, 1000}, {300, endpoints, -60, 900_000}}},
		} {
			for _, stale := range []bool{true, false} {
				g.exec(t, "truncate once_webhook_delivery")
				if stale {
					g.exec(t, "analyze once_webhook_delivery")
				}
				for _, f := range c.fill {
					g.exec(t, fill, f[0], f[1], f[2], f[3])
				}
				if !stale {
					g.exec(t, "vacuum analyze once_webhook_delivery")
					if c.what == "later" { // and then one endpoint gets many, of which the statistics do not know
						g.exec(t, fill, 100_000, 1, -30, 2_000_000)
					}
				}
				rows, buffers, plan := g.explain(t, due)
				if most := 4*endpoints + 5*rows; buffers > most || rows == 0 || strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan on once_webhook_delivery") {
					t.Errorf("%s, stale %t: %d buffers for %d rows, at most %d are allowed\n%s", c.what, stale, buffers, rows, most, plan)
				}
				for _, kind := range []string{"delivered", "failed"} {
					if _, _, plan := g.explain(t, k.last[kind]); strings.Contains(plan, "Seq Scan on once_webhook_delivery") {
						t.Errorf("%s, stale %t: what was %s:\n%s", c.what, stale, kind, plan)
					}
				}
			}
		}
	})
}

// explain runs a statement by a plan for any arguments, and undoes it.
func (g *fixture) explain(t *testing.T, st store.Statement) (rows, buffers int, text string) {
	t.Helper()
	args := make([]string, len(st.Args))
	for i, a := range st.Args {
		args[i] = literal(a)
	}
	execute := "execute explained"
	if len(args) > 0 {
		execute += "(" + strings.Join(args, ", ") + ")"
	}
	var lines []string
	err := g.db.Within(t.Context(), store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		for _, s := range []string{"deallocate all", "set local plan_cache_mode = force_generic_plan", "prepare explained as " + st.SQL} {
			if _, err := r.Exec(ctx, store.Statement{SQL: s}); err != nil {
				return err
			}
		}
		if err := r.Query(ctx, store.Statement{SQL: "explain (analyze, buffers) " + execute}, func(row sqlplane.Row) error {
			var line string
			err := row.Scan(&line)
			lines = append(lines, line)
			return err
		}); err != nil {
			return err
		}
		return errUndone
	})
	if err != errUndone { //nolint:errorlint // it is returned as it is
		t.Error(err) // a relay may ask
	}
	text = strings.Join(lines, "\n")
	if m := regexp.MustCompile(`actual time=\S+ rows=([\d.]+)`).FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseFloat(m[1], 64)
		rows = int(n)
	}
	if m := buffersRead.FindStringSubmatch(text); m != nil { // the first line is that of the whole statement
		for _, s := range m[1:] {
			n, _ := strconv.Atoi(s)
			buffers += n
		}
	}
	return rows, buffers, text
}

// literal is an argument as a text of PostgreSQL.
func literal(a any) string {
	switch a := a.(type) {
	case string:
		return "'" + strings.ReplaceAll(a, "'", "''") + "'"
	case []byte:
		return fmt.Sprintf(`'\x%x'`, a)
	case time.Time:
		return "'" + a.Format(time.RFC3339Nano) + "'"
	}
	return fmt.Sprint(a)
}
