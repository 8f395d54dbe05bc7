package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/saga"
)

// lookTracer keeps the statements that look for what is due.
type lookTracer struct {
	mu    sync.Mutex
	looks map[string][]any
}

func (l *lookTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "once_saga_due") && strings.HasPrefix(q.SQL, "select") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.looks[q.SQL] = q.Args
	}
	return ctx
}

func (*lookTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestALookBesideManyThatWait: beside 20,000 sagas that wait, a look for what is due reads at most five pages of PostgreSQL, by an index, and a saga that
// is woken goes on.
func TestALookBesideManyThatWait(t *testing.T) {
	look := &lookTracer{looks: map[string][]any{}}
	d := newDatabase(t, harness.Pgx)
	db, pool := harness.OpenPgx(t, d, func(c *pgxpool.Config) { c.ConnConfig.Tracer = look })
	s := system[pgx.Tx]{Database: d, db: db, waits: true}
	def := s.definition()
	r := s.runner(db, def)
	defer runs(t, r)()
	h := s.startIn(t, r, def, idOf("first"))
	harness.Until(t, func() error {
		if st, err := r.Status(t.Context(), idOf("first")); err != nil || st.State != "waiting" || len(st.Steps) < 2 {
			return fmt.Errorf("%+v, %w", st, err)
		}
		return nil
	})
	const many = 20_000
	harness.Exec(t, db, "create table copies as select o.*, n from once_operation o cross join generate_series(1, ?::int) n", int64(many))
	for _, sql := range []string{
		"update copies set key = 'copy ' || n", "alter table copies drop column n", "insert into once_operation select * from copies",
		"insert into once_saga_due (scope, key, name, due_at) select scope, key, name, now() + interval '1 day' + random() * interval '1 day' from copies", "vacuum analyze once_saga_due",
	} {
		harness.Exec(t, db, sql)
	}
	look.mu.Lock()
	looks := look.looks
	look.looks = map[string][]any{}
	look.mu.Unlock()
	if len(looks) == 0 {
		t.Error("vacuous: no look was seen")
	}
	for sql, args := range looks {
		var text []byte
		must(t, pool.QueryRow(t.Context(), "explain (analyze, buffers, format json) "+sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text))
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`  //nolint:tagliatelle // of PostgreSQL
				Read int `json:"Shared Read Blocks"` //nolint:tagliatelle // of PostgreSQL
			}
		}
		must(t, json.Unmarshal(text, &plans))
		if pages := plans[0].Plan.Hit + plans[0].Plan.Read; pages > 5 || strings.Contains(string(text), "Seq Scan") {
			t.Errorf("%d pages are read: %s", pages, text)
		}
	}
	s.approve(t, r, "first")
	if v, err := h.Result(t.Context()); v != "ship" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if n := s.rows(t); n != many {
		t.Errorf("%d rows of sagas that wait, want %d", n, many)
	}
}

// TestHeartbeatsTouchNoIndex: what renews the lease of a saga changes no index of PostgreSQL.
func TestHeartbeatsTouchNoIndex(t *testing.T) {
	d := newDatabase(t, harness.Pgx)
	db, _ := harness.OpenPgx(t, d)
	s := system[pgx.Tx]{Database: d, db: db}
	release := make(chan struct{})
	s.at = func(point string) {
		if point == "request" {
			<-release
		}
	}
	def := s.definition()
	r := saga.NewRunner(db, saga.Config{TTL: 3 * time.Second}, def) // a machine that is busy does not miss it
	const held, beats = 3, 3
	ended := make(chan error, held)
	for i := range held {
		go func() {
			key := fmt.Sprint("held ", i)
			_, err := saga.Do(context.WithoutCancel(t.Context()), r, def, idOf(key), key)
			ended <- err
		}()
	}
	harness.Until(t, func() error {
		all := harness.Count(t, db, "select coalesce(sum(n_tup_upd), 0) from pg_stat_user_tables where relname = 'once_operation'")
		if all < held*(1+beats) { // the intent of a call, and heartbeats
			return fmt.Errorf("%d updates are counted", all)
		}
		return nil
	})
	if n := harness.Count(t, db, "select n_tup_upd - n_tup_hot_upd from pg_stat_user_tables where relname = 'once_operation'"); n > 0 {
		t.Errorf("%d updates have changed an index", n)
	}
	close(release)
	for range held {
		must(t, <-ended)
	}
}
