package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/pgxstore"
)

// Sagas of three one-insert steps with undo data, against three transactions with one insert each.

const (
	nameSagaFloor   = "three transactions"
	nameSagaDo      = "saga.Do"
	nameSagaStarted = "started in the caller's transaction"
	nameSagaBatch   = "saga.Do, saga.Batch steps"
	nameSagaDrain   = "two other nodes drain"
	sagaSteps       = 3
	sagaClients     = 16
	sagaWorkers     = 2 * sagaClients // of a node
	sagaTable       = "create table booking (id text primary key, account text not null, cents bigint not null)"
	insertBooking   = "insert into booking (id, account, cents) values ($1, $2, $3)"
)

// sagas has the results of the section.
type sagas struct {
	Rounds  int           `json:"rounds"`
	Slice   time.Duration `json:"slice_ns"`
	Rows    []sagaRow     `json:"rows"`
	Figures []figure      `json:"figures"`
	Drained int           `json:"drained"` // in each round
	Single  time.Duration `json:"single_ns"`
	Waiting sagasWaiting  `json:"waiting"`
}

// sagaRow is one case with its bars.
type sagaRow struct {
	Name       string     `json:"name"`
	Commits    float64    `json:"commits"`
	Trips      float64    `json:"round_trips"`
	Throughput float64    `json:"throughput"` // of the floor
	CPU        float64    `json:"cpu"`        // of the floor
	Bars       [4]float64 `json:"bars"`       // in the order of the fields
}

func (r sagaRow) holds() bool {
	const rounding = 0.005
	return r.Commits <= r.Bars[0]+rounding && r.Trips <= r.Bars[1]+rounding && r.Throughput >= r.Bars[2] && r.CPU <= r.Bars[3]
}

// sagaBars of commits, round trips, throughput and CPU time. The caller's transaction is one of four, so its floor is computed from three.
var sagaBars = map[string][4]float64{
	nameSagaDo:      {3, 6, 0.6, 1.6},
	nameSagaStarted: {4, 9, 0.55, 1.6},
	nameSagaBatch:   {3, 3, 0.75, 1.2},
	nameSagaDrain:   {4 + 1./16, 6 + 1./16, 0.45, 1.8},
}

// booking is the input of a step, and its result: both are stored for the undo.
type booking struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

func (b booking) step(n int) booking {
	b.ID += "/" + strconv.Itoa(n)
	return b
}

// sagaField is sagas on a database.
type sagaField struct {
	pool          *pgxpool.Pool
	runner        *saga.Runner[pgx.Tx]
	inTx, inBatch *saga.Definition[booking, booking]
}

func newSagaField(pool *pgxpool.Pool) *sagaField {
	f := &sagaField{pool: pool}
	var txs []*saga.TxStep[pgx.Tx, booking, booking]
	var batches []*saga.BatchStep[booking, booking]
	var steps, writes []saga.Step
	for n := range sagaSteps {
		name := "book " + strconv.Itoa(n)
		tx := saga.Tx(name, func(ctx context.Context, tx pgx.Tx, b booking) (booking, error) {
			_, err := tx.Exec(ctx, insertBooking, b.ID, b.Account, b.Cents)
			return b, err
		}).Undo(func(ctx context.Context, tx pgx.Tx, _, b booking) error {
			_, err := tx.Exec(ctx, "delete from booking where id = $1", b.ID)
			return err
		})
		batch := saga.Batch(name, func(w *once.Batch, b booking) (booking, error) {
			w.Exec(insertBooking, b.ID, b.Account, b.Cents)
			return b, nil
		}).Undo(func(w *once.Batch, _, b booking) error {
			w.Exec("delete from booking where id = $1", b.ID)
			return nil
		})
		if n == sagaSteps-1 {
			tx, batch = tx.Last(), batch.Last()
		}
		txs, batches, steps, writes = append(txs, tx), append(batches, batch), append(steps, tx), append(writes, batch)
	}
	flow := func(do func(ctx saga.Context, n int, b booking) (booking, error)) func(saga.Context, booking) (booking, error) {
		return func(ctx saga.Context, b booking) (last booking, err error) {
			for n := 0; n < sagaSteps && err == nil; n++ {
				last, err = do(ctx, n, b.step(n))
			}
			return last, err
		}
	}
	f.inTx = saga.New("tx", flow(func(ctx saga.Context, n int, b booking) (booking, error) { return txs[n].Do(ctx, b) }), steps...)
	f.inBatch = saga.New("batch", flow(func(ctx saga.Context, n int, b booking) (booking, error) { return batches[n].Do(ctx, b) }), writes...)
	f.runner = saga.NewRunner(pgxstore.New(pool, pgxstore.Config{}), saga.Config{Concurrency: sagaWorkers}, f.inTx, f.inBatch)
	return f
}

func newBooking() booking { return booking{once.NewKey(), "acc_4711", 1000} }

func sagaID(key string) saga.ID { return saga.ID{Tenant: "acme", Key: key} }

func (f *sagaField) do(d *saga.Definition[booking, booking]) func(context.Context) error {
	return func(ctx context.Context) error {
		b := newBooking()
		_, err := saga.Do(ctx, f.runner, d, sagaID(b.ID), b)
		return err
	}
}

// start starts n sagas in one transaction.
func (f *sagaField) start(ctx context.Context, n int) (h *saga.Handle[booking], err error) {
	err = pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		for range n {
			b := newBooking()
			if h, err = saga.Start(ctx, f.runner, tx, f.inTx, sagaID(b.ID), b); err != nil {
				return err
			}
		}
		return nil
	})
	return h, err
}

func (f *sagaField) started(ctx context.Context) error {
	h, err := f.start(ctx, 1)
	if err == nil {
		_, err = h.Result(ctx)
	}
	return err
}

func (f *sagaField) contestants() []*contestant {
	list := []*contestant{{name: nameSagaFloor, run: f.byHand}}
	for g, name := range handNames {
		list = append(list, &contestant{name: name, run: func(ctx context.Context) error { return f.recordByHand(ctx, guard(g)) }})
	}
	return append(list, []*contestant{
		{name: nameSagaDo, run: f.do(f.inTx)},
		{name: nameSagaStarted, run: f.started},
		{name: nameSagaBatch, run: f.do(f.inBatch)},
	}...)
}

// sagaDatabase makes a database for sagas, and returns how to open it.
func (b *bench) sagaDatabase(ctx context.Context) (open func(size int32, change func(*pgxpool.Config)) (*sagaField, error), err error) {
	database, err := b.server.emptyDatabase()
	if err != nil {
		return nil, err
	}
	open = func(size int32, change func(*pgxpool.Config)) (*sagaField, error) {
		pool, err := b.server.pool(ctx, database, size, change)
		if err != nil {
			return nil, err
		}
		return newSagaField(pool), nil
	}
	f, err := open(1, nil)
	if err != nil {
		return nil, err
	}
	defer f.pool.Close()
	err = pgxstore.Migrate(ctx, f.pool, saga.Migrations)
	if err == nil {
		_, err = f.pool.Exec(ctx, sagaTable+"; "+recordTable)
	}
	return open, err
}

func (b *bench) saga(ctx context.Context) (*sagas, error) {
	s := &sagas{Rounds: max(3, b.rounds/8), Slice: 8 * b.slice, Drained: 1200}
	open, err := b.sagaDatabase(ctx)
	if err != nil {
		return nil, err
	}
	f, err := open(sagaClients, nil)
	if err != nil {
		return nil, err
	}
	defer f.pool.Close()
	r := race{sagaClients, s.Rounds, s.Slice, b.server.cpu(), f.contestants()}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	for _, c := range r.field[1:] {
		row := sagaRow{Name: c.name, Bars: sagaBars[c.name]}
		row.Throughput, row.CPU = sums(c, r.field[0])
		if c.name == nameSagaStarted { // of four transactions
			row.Throughput *= 4. / 3
			row.CPU *= 3. / 4
		}
		if row.Commits, row.Trips, err = sagaCost(ctx, open, c.name); err != nil {
			return nil, err
		}
		s.Rows = append(s.Rows, row)
	}
	if err := f.audit(ctx, r.field); err != nil {
		return nil, err
	}
	drain, err := b.sagaDrain(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, c := range append(r.field, drain) {
		s.Figures = append(s.Figures, c.figure())
	}
	s.Waiting, err = b.sagasWaiting(ctx)
	return s, err
}

// sums are the throughput and the CPU time of c, divided by those of floor, over all slices.
func sums(c, floor *contestant) (throughput, cpu float64) {
	each := func(c *contestant) (wall, cpu float64) {
		var ops float64
		for _, l := range c.laps {
			n := float64(l.ops)
			wall, cpu, ops = wall+n*l.wall.Seconds(), cpu+n*l.cpu().Seconds(), ops+n
		}
		return wall / ops, cpu / ops
	}
	wall, used := each(c)
	floorWall, floorUsed := each(floor)
	return floorWall / wall, used / floorUsed
}

// sagaCost counts commits and round trips, with one client.
func sagaCost(ctx context.Context, open func(int32, func(*pgxpool.Config)) (*sagaField, error), name string) (commits, trips float64, err error) {
	var wire faultnet.Wire
	var sent commitTracer
	f, err := open(1, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc, cfg.ConnConfig.Tracer = wire.DialContext, &sent })
	if err != nil {
		return 0, 0, err
	}
	defer f.pool.Close()
	one := find(f.contestants(), name)
	var tripped, committed int64
	for _, times := range []int{warmUps, counted} {
		tripped, committed = wire.Counts().RoundTrips, sent.commits.Load()
		for range times {
			if err := one.run(ctx); err != nil {
				return 0, 0, err
			}
		}
	}
	return float64(sent.commits.Load()-committed) / counted, float64(wire.Counts().RoundTrips-tripped) / counted, nil
}

// commitTracer counts commits, alone or together with other statements.
type commitTracer struct{ commits atomic.Int64 }

func (c *commitTracer) count(sql string) {
	if strings.EqualFold(sql, "commit") {
		c.commits.Add(1)
	}
}

func (c *commitTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	c.count(q.SQL)
	return ctx
}

func (*commitTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*commitTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (c *commitTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	c.count(q.SQL)
}

func (*commitTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// written counts the writing transactions of the server.
func (f *sagaField) written(ctx context.Context) (n int64, err error) {
	err = f.pool.QueryRow(ctx, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&n)
	return n, err
}

// audit counts the rows of the contestants.
func (f *sagaField) audit(ctx context.Context, field []*contestant) error {
	var bookings, ended, all, sagas int64
	for i, c := range field {
		n := c.ops
		if i > 0 {
			n += warmUps + counted
		}
		if all += n; i > len(handNames) {
			sagas += n
		}
	}
	err := f.pool.QueryRow(ctx, "select (select count(*) from booking), (select count(*) from once_operation where state = 2 and scope <> $1)", handScope).Scan(&bookings, &ended)
	if err == nil && (bookings != sagaSteps*all || ended != sagas) {
		err = fmt.Errorf("of %d sagas %d have ended, and there are %d bookings of %d", sagas, ended, bookings, sagaSteps*all)
	}
	return err
}

var errSagaLate = errors.New("sagas are not run")

func (s *sagas) write(p printer) {
	p("\n## Sagas\n")
	p("Sagas of three steps with one insert each, with inputs and results stored for their undos, against **%s** with one insert each", nameSagaFloor)
	p("(three commits and nine round trips), on PostgreSQL with pgx and %d clients. Ratios are those of sums over %d alternating slices of %s.", sagaClients, s.Rounds, s.Slice)
	p("Commits and round trips are counted, for one client. **%s**: the caller's transaction is", nameSagaStarted)
	p("compared with a fourth one, and the starter runs the saga. **%s**: %s sagas that were started before, by two nodes with %d", nameSagaDrain, thousands(int64(s.Drained)), sagaWorkers)
	p("workers and %d connections each. The commit of a start is counted, and its time is not; a node takes as many sagas as have room as soon as half", sagaClients)
	p("of its workers are free, and has looked for them and for those of other tenants before: three round trips. **%s** is the least that", handNames[guardRecord])
	p("can go on after a crash: each of the three writes a row with inputs and results. The rows below it add the guards of a saga, one after the other: they show what those cost without a flow.\n")
	p("| | commits | round trips | throughput of the floor | CPU time of the floor | bars | |")
	p("|---|---|---|---|---|---|---|")
	for _, r := range s.Rows {
		if r.Bars == [4]float64{} {
			p("| %s | %.4g | %.4g | %.2f | %.2f | | |", r.Name, r.Commits, r.Trips, r.Throughput, r.CPU)
			continue
		}
		p("| %s | %.4g | %.4g | **%.2f** | **%.2f** | %.4g, %.4g, >= %.4g, <= %.4g | %s |", r.Name, r.Commits, r.Trips, r.Throughput, r.CPU, r.Bars[0], r.Bars[1], r.Bars[2], r.Bars[3], word(r.holds()))
	}
	p("\n| per saga here | CPU client | CPU server | sagas a second |")
	p("|---|---|---|---|")
	for _, f := range s.Figures {
		p("| %s | %.0f µs | %.0f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
	}
	p("\nOne saga that is started beside two idle nodes has ended after %s at the longest of %d; the bar is 1 s: %s.", millis(s.Single), singles, word(s.Single <= time.Second))
	s.Waiting.write(p)
}
