package console_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/console"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/operate"
)

// tracer keeps the statements that are sent.
type tracer struct {
	mu   sync.Mutex
	sent map[string][]any
}

// TraceQueryStart implements [pgx.QueryTracer].
func (r *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := strings.ToLower(data.SQL); strings.HasPrefix(text, "select") || strings.HasPrefix(text, "with") {
		r.sent[data.SQL] = data.Args
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *tracer) take() map[string][]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = map[string][]any{}
	return sent
}

// node is a node of a plan.
type node struct {
	Type    string  `json:"Node Type"`              //nolint:tagliatelle // of PostgreSQL
	Rows    float64 `json:"Actual Rows"`            //nolint:tagliatelle // likewise
	Loops   float64 `json:"Actual Loops"`           //nolint:tagliatelle // likewise
	Removed float64 `json:"Rows Removed by Filter"` //nolint:tagliatelle // likewise
	Plans   []node  `json:"Plans"`                  //nolint:tagliatelle // likewise
}

// read is how many rows the scans of a plan read.
func (n node) read() (rows float64) {
	if strings.Contains(n.Type, "Scan") && !strings.Contains(n.Type, "Bitmap Index") && !strings.Contains(n.Type, "CTE") && !strings.Contains(n.Type, "Subquery") && !strings.Contains(n.Type, "WorkTable") && !strings.Contains(n.Type, "Function") {
		rows = (n.Rows + n.Removed) * n.Loops
	}
	for _, below := range n.Plans {
		rows += below.read()
	}
	return rows
}

// TestManyRows: no page reads more than a bounded number of rows, and the overview fewer than 2,000, with 100,000 operations, 30,000
// messages that wait and 30,000 dead letters: each bound is far below. Lists end with a link to the next page.
func TestManyRows(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	d := harness.Migrated(t, harness.Pgx, sets)
	trace := &tracer{sent: map[string][]any{}}
	s, pool := harness.OpenPgx(t, d, func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = trace
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
	for _, fill := range []string{
		`insert into once_operation (scope, key, state, claim, since, expires_at, name) select 'tenant' || i % 500 || ' POST /r' || i % 3, 'k' || i, case when i % 100 = 0 then 3 else 2 end, '\x01', now(), case when i % 100 = 0 then null else now() + interval '1 day' end, 'n' || i % 7 from generate_series(1, 100000) i`,
		`insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) select i % 64, 'topic' || i % 5, 'k' || i, 1, gen_random_uuid(), 't', 's', '', '\x7b7d', false, '', now() from generate_series(1, 30000) i`,
		`insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, key, seq, event_type, headers, payload, encrypted, trace, created_at, class, error, cause, attempts, first_failed_at, dead_at, state, redrive, redrive_at, resolved_at, reason)
 select lpad(i::text, 36, '0'), 'inbox', 'orders', 's', i::text, '\x01', 't', 'k', 0, 't', '', '', false, '', null, 'permanent', 'e', 'cause ' || i % 9, 1, now(), now(), 'dead', '', null, null, '' from generate_series(1, 30000) i`,
		"analyze",
	} {
		_, err := pool.Exec(t.Context(), fill)
		harness.Must(t, err)
	}
	server := httptest.NewServer(console.Handler(console.Config{
		Operate: operate.New(s, operate.Config{}), User: func(*http.Request) (console.User, error) {
			return console.User{Name: "ada", Role: console.RoleOperator}, nil
		},
	}))
	t.Cleanup(server.Close)
	found := send(t, http.MethodPost, server.URL+"/find", "", url.Values{"key": {"k1000"}}).header.Get("Location")
	list := send(t, http.MethodGet, server.URL+"/operations?state=unknown", "", nil)
	_, first, _ := strings.Cut(list.body, `<a href="operation?`)
	one := links.FindStringSubmatch(`<a href="operation?` + first)[1]
	for path, most := range map[string]float64{
		"": 2000, "operations": 4500, "operations?state=unknown": 4500, "operations?state=done": 4500, "operations?state=expired": 4500, "operations?name=none": 4500, "operations?since=1h&scope=tenant7": 4500,
		"operations?hash=0123456789abcdef": 4500, found: 3500, one: 20, "outbox": 2500, "messages?topic=topic3": 3500, "messages?state=stopped": 100,
		"deadletters": 5500, "letters": 100, "letters?cause=cause+3": 1000, "audit": 100, "help": 10,
	} {
		trace.take()
		p := send(t, http.MethodGet, server.URL+"/"+path, "", nil)
		sent := trace.take()
		if p.status != http.StatusOK || len(sent) == 0 {
			t.Errorf("%s: %d, %d statements: %s", path, p.status, len(sent), p.body)
		}
		var rows float64
		for _, sql := range slices.Sorted(maps.Keys(sent)) {
			var text []byte
			harness.Must(t, pool.QueryRow(t.Context(), "explain (analyze, format json) "+sql, sent[sql]...).Scan(&text))
			var plans []struct{ Plan node }
			harness.Must(t, json.Unmarshal(text, &plans))
			n := plans[0].Plan.read()
			if rows += n; n > most {
				t.Errorf("%s reads %v rows by %s\n%s", path, n, sql, text)
			}
		}
		t.Logf("%s: %v rows, %d bytes", path, rows, len(p.body))
		if rows > most {
			t.Errorf("%s reads %v rows, more than %v", path, rows, most)
		}
		if len(p.body) > 200<<10 {
			t.Errorf("%s: %d bytes", path, len(p.body))
		}
	}
}
