package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// byHand is the floor.
func (f *sagaField) byHand(ctx context.Context) error {
	b := newBooking()
	for n := range sagaSteps {
		s := b.step(n)
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertBooking, s.ID, s.Account, s.Cents)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// guard is a protection of a hand-written record, in addition to the ones before it.
type guard int

const (
	guardRecord guard = iota // a row that each of the three transactions writes; they commit even if it has another fence
	guardFence               // they commit only if it has the expected fence
	guardClaim               // the row is in once_operation, with its indexes: a claim, an owner, a lease, and a retention
	guardBounds              // for locks, statements and transactions that are idle
)

var handNames = [...]string{
	guardRecord: "three transactions that keep a record by hand",
	guardFence:  "the same, and compare its fence",
	guardClaim:  "the same, in the table of operations, with claim and lease",
	guardBounds: "the same, under bounds",
}

const (
	handScope    = "by hand"
	recordTable  = "create table record_by_hand (id text primary key, fence bigint not null, state int not null, data bytea not null)"
	insertRecord = "insert into record_by_hand (id, fence, state, data) values ($1, 1, 0, $2)"
	updateRecord = "update record_by_hand set fence = $1 + 1, state = $2, data = $3 where id = $4 and fence = $1"
	updateSure   = "with u as (" + updateRecord + " returning 1) select 1 / count(*)::int from u"
)

type handStep struct {
	Name   string  `json:"name"`
	Input  booking `json:"input"`
	Result booking `json:"result"`
}

// recordByHand is the minimal record that stores the progress with each commit, and inputs and results for undos.
func (f *sagaField) recordByHand(ctx context.Context, g guard) error {
	b := newBooking()
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	send := func(list ...handStatement) error {
		batch := &pgx.Batch{}
		for _, s := range list {
			batch.Queue(s.sql, s.args...)
		}
		return conn.SendBatch(ctx, batch).Close()
	}
	var steps []handStep
	nonce := []byte(b.ID)
	for n := range sagaSteps {
		s := b.step(n)
		steps = append(steps, handStep{"book " + strconv.Itoa(n), s, s})
		first := []handStatement{{"begin", nil}, {insertBooking, []any{s.ID, s.Account, s.Cents}}}
		if g >= guardBounds {
			first = []handStatement{{"begin isolation level read committed", nil}, {pgsql.BoundsStart, []any{"30000", "5000", "30000"}}, first[1]}
		}
		if err := send(first...); err != nil {
			return err
		}
		data, err := json.Marshal(steps)
		if err != nil {
			return err
		}
		if err := send(append(g.record(b, n, nonce, data), handStatement{"commit", nil})...); err != nil {
			return err
		}
	}
	return nil
}

type handStatement struct {
	sql  string
	args []any
}

// record are the statements that write the record of step n.
func (g guard) record(b booking, n int, nonce, data []byte) []handStatement {
	fence, point := int64(n), "book "+strconv.Itoa(n)
	switch id := (store.ID{Scope: handScope, Key: b.ID}); {
	case g < guardClaim && n == 0:
		return []handStatement{{insertRecord, []any{b.ID, data}}}
	case g == guardRecord:
		return []handStatement{{updateRecord, []any{fence, n, data, b.ID}}}
	case g == guardFence:
		return []handStatement{{updateSure, []any{fence, n, data, b.ID}}}
	case n == 0:
		f := once.FingerprintOf(data)
		return []handStatement{{pgsql.Expired, []any{id.Scope, id.Key}}, {pgsql.SwapInsert, []any{
			id.Scope, id.Key, pgsql.LockID(id), 1, 1, nonce, f[:], 0, 0, nil, nil, nil, "", "by hand", point, false, data, 30_000., nil,
		}}}
	default:
		state, lease, retain := 1, any(30_000.), any(nil)
		if n == sagaSteps-1 {
			state, lease, retain, data = 2, nil, float64((72 * time.Hour).Milliseconds()), nil
		}
		return []handStatement{{pgsql.SwapKeep, []any{
			id.Scope, id.Key, state, fence + 1, nonce, 0, 0, nil, nil, point, false, data, lease, retain, fence, false, nonce,
		}}}
	}
}
