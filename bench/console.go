package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/console"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/webhook"
)

// Pages of the console on a database with many rows.

const (
	overviewBar  = 20 * time.Millisecond // of CPU, client and server
	firstPageBar = 60 << 10              // bytes, compressed, with style and script
	consoleAsks  = 20                    // of each page in a round
)

// consoled has the costs of pages of the console.
type consoled struct {
	Operations int       `json:"operations"`
	Others     int       `json:"others"` // messages, dead letters, waiting keys of an inbox: number of each
	FirstPage  int       `json:"first_page_bytes"`
	Pages      []verdict `json:"pages"` // CPU time of a request in ms, client and server
}

// consolePages are the measured pages.
var consolePages = []struct{ name, path string }{
	{"overview", ""}, {"operations", "operations"}, {"operations that are unknown", "operations?state=unknown"}, {"topics of the outbox", "outbox"}, {"blocked messages", "messages?state=blocked"},
	{"inboxes", "inboxes"}, {"keys of an inbox", "inbox?consumer=orders"}, {"dead letters by cause", "deadletters"}, {"a form that discards", "do?action=discard&origin=inbox&cause=cause+3"},
}

// loadConsole fills the tables.
var loadConsole = []string{
	`insert into once_operation (scope, key, state, claim, since, expires_at, name) select 'tenant' || i % 500 || ' POST /r' || i % 3, 'k' || i, case when i % 100 = 0 then 3 else 2 end, '\x01', now(), case when i % 100 = 0 then null else now() + interval '1 day' end, 'n' || i % 7 from generate_series(1, OPERATIONS) i`,
	`insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) select i % 64, 'topic' || i % 5, 'k' || i, 1, gen_random_uuid(), 't', 's', '', '\x7b7d', false, '', now() from generate_series(1, OTHERS) i`,
	`insert into once_outbox_failed (part, id, topic, key, attempts, next_at, failed_at, error) select part, id, topic, key, 3, now(), now(), 'e' from once_outbox where id % 20 = 0`,
	`insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) select part, topic, key, 2, gen_random_uuid(), 't', 's', '', '\x7b7d', false, '', now() from once_outbox where id % 40 = 0`,
	`insert into once_inbox_position (consumer, source, topic, key, seq, parked, dead, moved_at) select 'orders', 's', 't', 'k' || i, 1, 1, i % 10 = 0, now() from generate_series(1, OTHERS) i`,
	`insert into once_inbox_parked (consumer, source, topic, key, seq, event_id, event_type, payload_hash, headers, payload, encrypted, trace, created_at, parked_at, next_at) select 'orders', 's', 't', 'k' || i, 3, i::text, 't', '', '', '\x7b7d', false, '', null, now(), null from generate_series(1, OTHERS) i`,
	`insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, key, seq, event_type, headers, payload, encrypted, trace, created_at, class, error, cause, attempts, first_failed_at, dead_at, state, redrive, redrive_at, resolved_at, reason)
 select lpad(i::text, 36, '0'), 'inbox', 'orders', 's', i::text, '\x01', 't', 'k', 0, 't', '', '', false, '', null, 'permanent', 'e', 'cause ' || i % 9, 1, now(), now(), 'dead', '', null, null, '' from generate_series(1, OTHERS) i`,
	`insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 select lpad(i::text, 16, '0'), decode(lpad(to_hex(i), 32, '0'), 'hex'), 's', now() - i * interval '1 ms', case when i % 4 = 0 then 'replayed' else 'executed' end, 'applied', '', '', '', 1, 1, 0, '', '', '', 0, 0, 0, 0, 0 from generate_series(1, OTHERS) i`,
}

func (b *bench) console(ctx context.Context) (*consoled, error) {
	c := &consoled{Operations: 1_000_000, Others: 100_000}
	if b.quick {
		c.Operations, c.Others = 100_000, 10_000
	}
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := b.server.pool(ctx, database, 4, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := c.load(ctx, pool); err != nil {
		return nil, err
	}
	handler := console.Handler(console.Config{
		Operate: operate.New(pgxstore.New(pool, pgxstore.Config{}), operate.Config{}),
		User: func(*http.Request) (console.User, error) {
			return console.User{Name: "ada", Role: console.RoleOperator}, nil
		},
	})
	ask := func(path string) ([]byte, error) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+path, http.NoBody))
		if w.Code != http.StatusOK {
			return nil, fmt.Errorf("/%s: %d", path, w.Code)
		}
		return w.Body.Bytes(), nil
	}
	if c.FirstPage, err = firstPage(ask); err != nil {
		return nil, err
	}
	used := b.server.cpu()
	for _, page := range consolePages {
		var costs []float64
		for round := range b.rounds/4 + 2 {
			client, server := used.used()
			for range consoleAsks {
				if _, err := ask(page.path); err != nil {
					return nil, err
				}
			}
			client2, server2 := used.used()
			if round < 2 { // plans and pages of the database are not cached yet
				continue
			}
			costs = append(costs, millisOf(client2-client+server2-server)/consoleAsks)
		}
		v := verdict{What: page.name, AtMost: true}
		if page.path == "" {
			v.Bar = millisOf(overviewBar)
		}
		v.Median, v.Min, v.Max = spread(costs)
		c.Pages = append(c.Pages, v.judged())
	}
	return c, nil
}

func (c *consoled) load(ctx context.Context, pool *pgxpool.Pool) error {
	if err := pgxstore.Migrate(ctx, pool, attemptlog.Migrations, operate.Migrations, outbox.Migrations, inbox.Migrations, deadletter.Migrations, webhook.Migrations); err != nil {
		return err
	}
	numbers := strings.NewReplacer("OPERATIONS", strconv.Itoa(c.Operations), "OTHERS", strconv.Itoa(c.Others))
	for _, fill := range loadConsole {
		if _, err := pool.Exec(ctx, numbers.Replace(fill)); err != nil {
			return err
		}
	}
	_, err := pool.Exec(ctx, "vacuum analyze")
	return err
}

// firstPage is the compressed size of the overview with all its resources, in bytes.
func firstPage(ask func(path string) ([]byte, error)) (int, error) {
	var whole bytes.Buffer
	packed := gzip.NewWriter(&whole)
	for _, path := range []string{"", "console.css", "console.js"} {
		body, err := ask(path)
		if err != nil {
			return 0, err
		}
		if _, err := packed.Write(body); err != nil {
			return 0, err
		}
	}
	err := packed.Close()
	return whole.Len(), err
}

func (c *consoled) write(p printer) {
	p("\n## Console\n")
	p("Pages on PostgreSQL with %d operations, and %d messages, dead letters, attempts and keys of an inbox that wait, in the process and without", c.Operations, c.Others)
	p("sockets. A request at a time, %d of each page in a round. How many rows a page reads is in `integration/console`.\n", consoleAsks)
	p("| CPU time of a request in ms, client and server | median | bar | |")
	p("|---|---|---|---|")
	for _, page := range c.Pages {
		p("| %s | %s |", page.What, page.cells())
	}
	p("\nThe overview with its style and script has %.1f kB, compressed (bar: <= %d kB, %s).", float64(c.FirstPage)/1024, firstPageBar>>10, word(c.FirstPage <= firstPageBar))
}
