package console_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/console"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
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
// messages that wait, 100,000 that are kept, 100,000 dead letters, 100,000 keys of an inbox that wait, 100,000 webhooks that have stopped at one endpoint and 100,000 sagas: each bound is far below. A form that has not
// counted all dead letters says so, and does what it says with all of them. The first page with all that it loads has less than 60 kB.
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
		`insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at)
 select part, topic, key, 2, gen_random_uuid(), 't', 's', '', '\x7b7d', false, '', now() from once_outbox where id % 40 = 0`,
		`insert into once_outbox_paused (topic, key, reason, paused_at) select 'topic1', 'p' || i, 'r', now() from generate_series(1, 5000) i`,
		`insert into once_inbox_position (consumer, source, topic, key, seq, parked, dead, moved_at) select 'orders', 's', 't', 'k' || i, 1, 1, i % 10 = 0, now() from generate_series(1, 100000) i`,
		`insert into once_inbox_position (consumer, source, topic, key, seq, parked, dead, moved_at) values ('ledger', 's', 't', 'k', 1, 50000, false, now())`,
		`insert into once_inbox_parked (consumer, source, topic, key, seq, event_id, event_type, payload_hash, headers, payload, encrypted, trace, created_at, parked_at, next_at)
 select 'orders', 's', 't', 'k' || i, 3, i::text, 't', '', '', '\x7b7d', false, '', null, now(), null from generate_series(1, 100000) i`,
		`insert into once_inbox_parked (consumer, source, topic, key, seq, event_id, event_type, payload_hash, headers, payload, encrypted, trace, created_at, parked_at, next_at)
 select 'ledger', 's', 't', 'k', i + 2, 'l' || i, 't', '', '', '\x7b7d', false, '', null, now(), null from generate_series(1, 50000) i`,
		`insert into once_audit (at, who, action, scope, key_hash, reason, detail) select now(), 'ada', 'forget', 'tenant1 POST /r1', lpad(i::text, 16, '0'), 'r', 'd' from generate_series(1, 100000) i`,
		`insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 select lpad(i::text, 16, '0'), decode(lpad(to_hex(i), 32, '0'), 'hex'), 's', now() - i * interval '1 ms', case when i % 4 = 0 then 'replayed' else 'executed' end, 'applied', '', '', '', 1, 1, 0, '', '', '', 0, 0, 0, 0, 0 from generate_series(1, 100000) i`,
		`insert into once_webhook_endpoint (uid, part, tenant, url, types, description, headers, secret, encrypted, ordered, rate, concurrency, disabled_at, disabled_by, created_at, version)
 select 'ep_' || lpad(i::text, 8, '0'), i % 64, 't' || i % 20, 'https://example.com', ' * ', '', '', '', false, false, 0, 0, case when i % 10 = 0 then now() end, '', now(), 1 from generate_series(1, 10000) i`,
		`insert into once_webhook_state (endpoint, part, failures, failing_since, circuit_until, told) select id, part, 1, now(), now() + interval '1 hour', 0 from once_webhook_endpoint where id % 3 = 0`,
		`insert into once_webhook_event (uid, tenant, type, data, encrypted, trace, created_at) select 'msg_' || i, 't1', 'a.b', '', false, '', now() from generate_series(1, 100000) i`,
		`insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at) select (select id from once_webhook_endpoint where uid = 'ep_00000001'), id, 1, case when id % 1000 = 0 then now() end, 9, '', created_at from once_webhook_event`,
		`insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host) select endpoint, event, now(), 1, 500, '', 0, '', false, '', '' from once_webhook_delivery`,
		`insert into once_operation (scope, key, state, claim, since, expires_at, name, data) select 'saga/tenant' || i % 50, 'k' || i, case when i % 100 = 0 then 3 else 2 end, '\x01', now(), null, 'saga' || i % 3, convert_to('{"definition":"d","steps":[{"name":"a","state":"done"}]}', 'UTF8') from generate_series(1, 100000) i`,
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
	_, first, _ = strings.Cut(send(t, http.MethodGet, server.URL+"/inbox?consumer=ledger", "", nil).body, `<a href="place?`)
	place := links.FindStringSubmatch(`<a href="place?` + first)[1]
	_, id, _ := strings.Cut(place, "id=")
	list = send(t, http.MethodGet, server.URL+"/sagas?state=stuck", "", nil)
	_, first, _ = strings.Cut(list.body, `<a href="saga?`)
	stuck := links.FindStringSubmatch(`<a href="saga?` + first)[1]
	const hook = "endpoint?endpoint=ep_00000001"
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
		"operations?hash=0123456789abcdef": 4500, found: 3500, one: 50, caused: 80, "outbox": 2000, "messages?topic=topic3": 3500, "messages?state=stopped": 500, "messages?state=failing": 3500, "messages?state=blocked": 2000, "messages?state=blocked&topic=topic3": 2000, "messages?state=delivered": 3500, "messages?topic=none": 3500, "messages": 3500,
		"message?id=" + messageID: 50, "message?id=" + sentID: 50, "event?id=" + messageID: 50, "event?id=" + goneID: 50, "do?action=resend&id=" + sentID: 50, "do?action=pause&topic=topic1": 50, "attempts": 1100, "attempts?outcome=conflict": 1100, "endpoints": 300, "endpoints?state=failing": 2600, "endpoints?state=disabled": 3000, "endpoints?state=open": 2600, "endpoints?state=active&tenant=none": 20, "endpoints?tenant=t1": 2500,
		"letter?id=" + strings.Repeat("0", 35) + "7": 20, "do?action=discard&origin=inbox&cause=cause+3": 10_100, "do?action=redrive&origin=inbox&cause=cause+3": 10_100, "do?action=discard&cause=none": 10_100,
		"inboxes": 2000, "inbox?consumer=orders": 1600, "inbox?consumer=orders&after=50": 1600, place: 150, "do?action=inbox-skip&id=" + id: 50, "do?action=start-at&seq=40000&id=" + id: 10_100,
		"deadletters": 5500, "letters": 100, "letters?cause=cause+3": 4100, "letters?cause=none": 4100, "audit": 100, "help": 10,
		hook: 800, hook + "&state=stopped": 5000, hook + "&state=waiting": 5000, hook + "&state=delivered": 8500, hook + "&state=delivered&after=msg_50000": 8500, "delivery?endpoint=ep_00000001&event=msg_777": 50, "event?id=msg_777": 2500,
		"do?action=webhook-resend&endpoint=ep_00000001&event=msg_777": 50, "do?action=webhook-recover&since=1h&endpoint=ep_00000001": 10_100, "do?action=webhook-disable&endpoint=ep_00000001": 20,
		"sagas": 2500, "sagas?state=stuck": 4500, "sagas?state=waiting": 4500, "sagas?state=completed": 4500, "sagas?name=none": 4500, "sagas?tenant=tenant7&state=stuck": 4500, "sagas?since=1h": 4500, stuck: 50,
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
	form := send(t, http.MethodGet, server.URL+"/do?action=discard&cause=cause+3", "", nil)
	_, of, _ := strings.Cut(form.body, `name="of" value="`)
	of, _, _ = strings.Cut(of, `"`)
	if !strings.Contains(form.body, "Discard 1,111 or more matching") || !strings.Contains(form.body, "Only the oldest 10,000 dead letters are counted") {
		t.Errorf("the form says %s", form.body)
	}
	died := "insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, key, seq, event_type, headers, payload, encrypted, trace, created_at, class, error, cause, attempts, first_failed_at, dead_at, state, redrive, redrive_at, resolved_at, reason)" +
		" values ('0later', 'inbox', 'orders', 's', 'later', '', 't', 'k', 0, 't', '', '', false, '', null, 'permanent', 'e', 'cause 3', 1, now(), now() + interval '1 hour', 'dead', '', null, null, '')"
	_, err := pool.Exec(t.Context(), died)
	harness.Must(t, err)
	p := send(t, http.MethodPost, server.URL+"/do", "", url.Values{"action": {"discard"}, "of": {html.UnescapeString(of)}, "reason": {"old"}})
	var discarded, left int
	harness.Must(t, pool.QueryRow(t.Context(), "select count(*) filter (where state = 'discarded'), count(*) filter (where state = 'dead' and cause = 'cause 3') from once_deadletter").Scan(&discarded, &left))
	if p.status != http.StatusSeeOther || discarded != 11_111 || left != 1 {
		t.Errorf("%d: %d letters are discarded and %d left, want all that matched and the one that died later: %s", p.status, discarded, left, p.body)
	}
}
