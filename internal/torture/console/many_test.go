package console_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	sent []statement
}

// statement is one that was sent.
type statement struct {
	text string
	args []any
}

// TraceQueryStart implements [pgx.QueryTracer].
func (r *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := strings.ToLower(data.SQL); strings.HasPrefix(text, "select") || strings.HasPrefix(text, "with") {
		r.sent = append(r.sent, statement{data.SQL, data.Args})
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *tracer) take() []statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
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

// TestManyRows: no page reads more than a bounded number of rows, and the overview fewer than 2,000, with 1,000,000 operations, 100,000
// messages that wait, 100,000 that are kept and 100,000 dead letters: each bound is far below. The first page with all that it loads has less than 60 kB.
func TestManyRows(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	d := harness.Migrated(t, harness.Pgx, sets)
	trace := new(tracer)
	s, pool := harness.OpenPgx(t, d, func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = trace
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
	for _, fill := range []string{
		`insert into once_operation (scope, key, state, claim, since, expires_at, name) select 'tenant' || i % 500 || ' POST /r' || i % 3, 'k' || i, case when i % 100 = 0 then 3 else 2 end, '\x01', now(), case when i % 100 = 0 then null else now() + interval '1 day' end, 'n' || i % 7 from generate_series(1, 1000000) i`,
		`insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) select i % 64, 'topic' || i % 5, 'k' || i, 1, gen_random_uuid(), 't', 's', '', '\x7b7d', false, '', now() from generate_series(1, 100000) i`,
		`update once_outbox set event_id = '` + messageID + `', op_scope = 'tenant1 POST /r1', op_key = 'k1' where id = (select max(id) from once_outbox)`,
		`update once_operation set head = convert_to('Once-Events: ` + messageID + " " + sentID + " " + goneID + `' || chr(10), 'UTF8') where scope = 'tenant1 POST /r1' and key = 'k1'`,
		`insert into once_outbox_failed (part, id, topic, key, attempts, next_at, failed_at, error) select part, id, topic, key, 3, now(), now(), 'e' from once_outbox where id % 20 = 0`,
		`insert into once_outbox_sent (part, id, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at, sent_at) select i % 64, i, 'topic' || i % 5, 'k' || i, 1, gen_random_uuid(), 't', 's', '', '\x7b7d', false, '', now(), now() from generate_series(1, 100000) i`,
		`update once_outbox_sent set event_id = '` + sentID + `' where id = 77777 and part = 77777 % 64`,
		`insert into once_inbox (consumer, source, event_id, payload_hash, received_at, processed_at) select 'consumer' || i % 5, 's', case when i = 500 then '` + messageID + `' else i::text end, '\x01', now(), now() from generate_series(1, 100000) i`,
		`insert into once_audit (at, who, action, scope, key_hash, reason, detail) select now(), 'ada', 'forget', 'tenant1 POST /r1', lpad(i::text, 16, '0'), 'r', 'd' from generate_series(1, 100000) i`,
		`insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 select lpad(i::text, 16, '0'), decode(lpad(to_hex(i), 32, '0'), 'hex'), 's', now() - i * interval '1 ms', case when i % 4 = 0 then 'replayed' else 'executed' end, 'applied', '', '', '', 1, 1, 0, '', '', '', 0, 0, 0, 0, 0 from generate_series(1, 100000) i`,
		`insert into once_webhook_endpoint (uid, part, tenant, url, types, description, headers, secret, encrypted, ordered, rate, concurrency, disabled_at, disabled_by, created_at, version)
 select 'ep_' || lpad(i::text, 8, '0'), i % 64, 't', 'https://example.com', ' * ', '', '', '', false, false, 0, 0, case when i % 10 = 0 then now() end, '', now(), 1 from generate_series(1, 10000) i`,
		`insert into once_webhook_state (endpoint, part, failures, failing_since, circuit_until, told) select id, part, 1, now(), now() + interval '1 hour', 0 from once_webhook_endpoint where id % 3 = 0`,
		`insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, key, seq, event_type, headers, payload, encrypted, trace, created_at, class, error, cause, attempts, first_failed_at, dead_at, state, redrive, redrive_at, resolved_at, reason)
 select lpad(i::text, 36, '0'), 'inbox', 'orders', 's', i::text, '\x01', 't', 'k', 0, 't', '', '', false, '', null, 'permanent', 'e', 'cause ' || i % 9, 1, now(), now(), 'dead', '', null, null, '' from generate_series(1, 100000) i`,
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
	list = send(t, http.MethodGet, server.URL+"/"+send(t, http.MethodPost, server.URL+"/find", "", url.Values{"key": {"k1"}}).header.Get("Location"), "", nil)
	_, first, _ = strings.Cut(list.body, `<a href="operation?`)
	caused := links.FindStringSubmatch(`<a href="operation?` + first)[1]
	var whole bytes.Buffer
	packed := gzip.NewWriter(&whole)
	for _, path := range []string{"", "console.css", "console.js"} {
		_, err := packed.Write([]byte(send(t, http.MethodGet, server.URL+"/"+path, "", nil).body))
		harness.Must(t, err)
	}
	harness.Must(t, packed.Close())
	if t.Logf("the first page has %d bytes, compressed", whole.Len()); whole.Len() > 60<<10 {
		t.Errorf("the first page has %d bytes, compressed", whole.Len())
	}
	for path, most := range map[string]float64{
		"": 2000, "operations": 4500, "operations?state=unknown": 4500, "operations?state=done": 4500, "operations?state=expired": 4500, "operations?name=none": 4500, "operations?since=1h&scope=tenant7": 4500,
		"operations?hash=0123456789abcdef": 4500, found: 3500, one: 50, caused: 80, "outbox": 9000, "messages?topic=topic3": 3500, "messages?state=stopped": 500, "messages?state=failing": 3500, "messages?state=blocked": 20_000, "messages?state=delivered": 3500, "messages?topic=none": 3500, "messages": 3500,
		"message?id=" + messageID: 50, "message?id=" + sentID: 50, "event?id=" + messageID: 50, "event?id=" + goneID: 50, "do?action=resend&id=" + sentID: 50, "do?action=pause&topic=topic1": 50, "attempts": 1100, "attempts?outcome=conflict": 1100, "endpoints": 300, "endpoints?state=failing": 600,
		"letter?id=" + strings.Repeat("0", 35) + "7": 20, "do?action=discard&origin=inbox&cause=cause+3": 110_000, "do?action=redrive&origin=inbox&cause=cause+3": 220_000, // these two say how many letters match

		"deadletters": 5500, "letters": 100, "letters?cause=cause+3": 1000, "audit": 100, "help": 10,
	} {
		trace.take()
		p := send(t, http.MethodGet, server.URL+"/"+path, "", nil)
		sent := trace.take()
		if p.status != http.StatusOK || len(sent) == 0 {
			t.Errorf("%s: %d, %d statements: %s", path, p.status, len(sent), p.body)
		}
		var rows float64
		for _, s := range sent {
			var text []byte
			harness.Must(t, pool.QueryRow(t.Context(), "explain (analyze, format json) "+s.text, s.args...).Scan(&text))
			var plans []struct{ Plan node }
			harness.Must(t, json.Unmarshal(text, &plans))
			n := plans[0].Plan.read()
			if rows += n; n > most {
				t.Errorf("%s reads %v rows by %.200s", path, n, s.text)
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
