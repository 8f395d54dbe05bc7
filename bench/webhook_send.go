package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/webhook"
)

const (
	hookBody     = 500 // bytes, and
	hookLongBody = 2000
	hookFan      = 10 // endpoints of a tenant
	hookClients  = 12
	nameHookRows = "rows by hand"
	nameHookBare = "rows of Send by hand"
	nameHookSend = "Send"

	insertHookRows = `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select part, uid, '', null, gen_random_uuid(), $2, 'once', '', $3, false, '' from once_webhook_endpoint where tenant = $1 and disabled_at is null`

	// insertHookBare writes what Send writes, for all endpoints of the tenant: less than this no program can have PostgreSQL do for these tables.
	insertHookBare = `with v as (insert into once_webhook_event (uid, tenant, type, data, encrypted, created_at) values (gen_random_uuid()::text, $1, $2, $3, false, now()) returning id, created_at)
 insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e.id, v.id, e.part, v.created_at, 0, '', v.created_at from v, once_webhook_endpoint e where e.tenant = $1 and e.disabled_at is null`
)

// hookSends compares Send with rows that are written by hand.
func (b *bench) hookSends(ctx context.Context) (list []throughput, err error) {
	for _, s := range []struct {
		tenants, body int
		bar           float64
	}{{100, hookBody, 1.3}, {1, hookBody, 1.1}, {100, hookLongBody, 0}} {
		t, err := b.hookSend(ctx, s.tenants, s.body, s.bar)
		if err != nil {
			return nil, err
		}
		list = append(list, *t)
	}
	return list, nil
}

func (b *bench) hookSend(ctx context.Context, tenants, body int, bar float64) (*throughput, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, c, err := b.server.prepare(ctx, database, 100, setting{clients: hookClients})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := pgxstore.Migrate(ctx, pool, webhook.Migrations, outbox.Migrations); err != nil {
		return nil, err
	}
	for i := range tenants * hookFan {
		_, err := pool.Exec(ctx, strings.Replace(insertHookEndpoint, "'tenant ' || $1::bigint", fmt.Sprintf("'tenant %d'", i%tenants), 1), i+1, "https://example.com/", []byte(hookSecret))
		if err != nil {
			return nil, err
		}
	}
	t := &throughput{Slug: fmt.Sprintf("webhook%d-%d", tenants, body), Title: fmt.Sprintf("Send, tenants: %d, bytes: %s", tenants, thousands(int64(body)))}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	r := race{hookClients, min(b.rounds, 40), b.slice, b.server.cpu(), hookContestants(pool, c, tenants, body)}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	for table, ops := range map[string]int64{"once_outbox": r.field[0].ops, "once_webhook_delivery": r.field[1].ops + r.field[2].ops} {
		var rows int64
		if err := pool.QueryRow(ctx, "select count(*) from "+table).Scan(&rows); err != nil {
			return nil, err
		}
		if want := hookFan * ops; rows != want {
			return nil, fmt.Errorf("%s has %d rows, want %d", table, rows, want)
		}
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range []comparison{{nameHookSend, nameHookRows, bar}, {nameHookBare, nameHookRows, 0}, {nameHookSend, nameHookBare, 0}, {nameHookSend, nameDo, 0}} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}

func hookContestants(pool *pgxpool.Pool, c *candidate, tenants, size int) []*contestant {
	hooks := webhook.New[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}), webhook.Config{PlainSecrets: true})
	body := []byte(strings.Repeat("x", size))
	operation := func(send func(ctx context.Context, tx pgx.Tx, tenant string) error) func(context.Context) error {
		return func(ctx context.Context) error {
			o := newOrder()
			r, err := once.Do(ctx, c.engine, newOperation(once.NewKey(), o), func(ctx context.Context, tx pgx.Tx) (receipt, error) {
				r, err := o.place(ctx, tx)
				if err == nil {
					err = send(ctx, tx, fmt.Sprintf("tenant %d", rand.N(tenants)))
				}
				return r, err
			})
			if err == nil && r.Replayed {
				err = errTaken
			}
			return err
		}
	}
	byHand := func(statement string) func(context.Context) error {
		return operation(func(ctx context.Context, tx pgx.Tx, tenant string) error {
			_, err := tx.Exec(ctx, statement, tenant, "refund.succeeded", body)
			return err
		})
	}
	return []*contestant{
		{name: nameHookRows, run: byHand(insertHookRows)},
		{name: nameHookBare, run: byHand(insertHookBare)},
		{name: nameHookSend, run: operation(func(ctx context.Context, tx pgx.Tx, tenant string) error {
			return hooks.Send(ctx, tx, webhook.Event{Tenant: tenant, Type: "refund.succeeded", Data: body})
		})},
		{name: nameDo, run: c.executions},
	}
}

// verified is what it costs to verify a webhook.
type verified struct {
	Time   verdict `json:"time"` // over the bare HMAC
	Allocs verdict `json:"allocations"`
}

// hookVerify compares Verify with the bare HMAC of the same bytes.
func (b *bench) hookVerify() (list []verified, err error) {
	for _, size := range []int{1000, 20_000} {
		const begin, end = `{"type":"refund.succeeded","data":{"memo":"`, `"}}`
		body, header := []byte(begin+strings.Repeat("x", size-len(begin+end))+end), http.Header{}
		signer, err := webhook.NewSigner(hookSecret)
		if err == nil {
			err = signer.Sign(header, "msg_1", time.Now(), body)
		}
		if err != nil {
			return nil, err
		}
		v := webhook.Standard(hookSecret)
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hookSecret, "whsec_"))
		if err != nil {
			return nil, err
		}
		head := []byte("msg_1." + header.Get(webhook.HeaderTimestamp) + ".")
		bare := func() error {
			mac := hmac.New(sha256.New, key)
			mac.Write(head)
			mac.Write(body)
			mac.Sum(nil)
			return nil
		}
		verify := func() error {
			_, err := v.Verify(header, body)
			return err
		}
		var times, allocs []float64
		n := 20_000_000 / size
		for range min(b.rounds, 20) {
			base, _, err1 := timed(n, bare)
			took, mallocs, err2 := timed(n, verify)
			if err1 != nil || err2 != nil {
				return nil, err2
			}
			times, allocs = append(times, took/base), append(allocs, mallocs)
		}
		one := verified{Time: absolute(thousands(int64(size))+" bytes", times, 1.1), Allocs: absolute("allocations", allocs, 2)}
		list = append(list, one)
	}
	return list, nil
}

// timed returns the CPU time and the allocations of one call of fn.
func timed(n int, fn func() error) (nanos, mallocs float64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, _ := cpu{}.used()
	for range n {
		if err := fn(); err != nil {
			return 0, 0, err
		}
	}
	ended, _ := cpu{}.used()
	runtime.ReadMemStats(&after)
	return float64(ended-began) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n), nil
}
