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
	hookBody     = 500 // bytes
	hookFan      = 10  // endpoints of a tenant
	hookClients  = 12
	nameHookRows = "rows by hand"
	nameHookSend = "Send"

	insertHookRows = `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select part, uid, '', null, gen_random_uuid(), $2, 'once', '', $3, false, '' from once_webhook_endpoint where tenant = $1 and disabled_at is null`
)

// hookSends compares Send with rows that are written by hand.
func (b *bench) hookSends(ctx context.Context) (list []throughput, err error) {
	for _, s := range []struct {
		tenants int
		bar     float64
	}{{100, 1.3}, {1, 1.1}} {
		t, err := b.hookSend(ctx, s.tenants, s.bar)
		if err != nil {
			return nil, err
		}
		list = append(list, *t)
	}
	return list, nil
}

func (b *bench) hookSend(ctx context.Context, tenants int, bar float64) (*throughput, error) {
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
	t := &throughput{Slug: fmt.Sprintf("webhook%d", tenants), Title: fmt.Sprintf("Send, %d tenants", tenants)}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	r := race{hookClients, b.rounds, b.slice, b.server.cpu(), hookContestants(pool, c, tenants)}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	var rows [2]int64
	for i, table := range []string{"once_outbox", "once_webhook_delivery"} {
		if err := pool.QueryRow(ctx, "select count(*) from "+table).Scan(&rows[i]); err != nil {
			return nil, err
		}
		if want := hookFan * r.field[i].ops; rows[i] != want {
			return nil, fmt.Errorf("%s has %d rows, want %d", table, rows[i], want)
		}
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	t.Verdicts = append(t.Verdicts, judge(r.field, comparison{nameHookSend, nameHookRows, bar}), judge(r.field, comparison{nameHookSend, nameDo, 0}))
	return t, nil
}

func hookContestants(pool *pgxpool.Pool, c *candidate, tenants int) []*contestant {
	hooks := webhook.New[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}), webhook.Config{PlainSecrets: true})
	body := []byte(strings.Repeat("x", hookBody))
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
	return []*contestant{
		{name: nameHookRows, run: operation(func(ctx context.Context, tx pgx.Tx, tenant string) error {
			_, err := tx.Exec(ctx, insertHookRows, tenant, "refund.succeeded", body)
			return err
		})},
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
		for range max(5, b.rounds) {
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
