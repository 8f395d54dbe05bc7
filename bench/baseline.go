package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
)

// The baselines, written as one would by hand: prepared statements (pgx caches
// them by itself), no statement that is not needed, the same response stored in a
// table of the same columns and index as that of once.

// baselineSchema follows the migrations of once, so that the tables stay equal.
const baselineSchema = `
create table insert_update_key (like once_operation including all);
create table two_commit_key (like once_operation including all);`

const (
	insertRunning = ` (scope, key, state, claim, fingerprint, expires_at)
 values ($1, $2, 1, $3, $4, now() + interval '72 hours') on conflict do nothing`
	updateDone = ` set state = 2, status = 201, body = $3 where scope = $1 and key = $2`

	insertUpdateRunning = `insert into insert_update_key` + insertRunning
	insertUpdateDone    = `update insert_update_key` + updateDone
	twoCommitRunning    = `insert into two_commit_key` + insertRunning
	twoCommitDone       = `update two_commit_key` + updateDone
)

var errTaken = errors.New("a new key was taken")

// bare is the floor: BEGIN, two inserts, COMMIT. A retry charges twice.
func bare(ctx context.Context, pool *pgxpool.Pool) error {
	o := newOrder()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := o.place(ctx, tx)
		return err
	})
}

// insertUpdate claims the key with a row in the business transaction and completes
// it there: correct, like once, with two trips and a dead row more.
func insertUpdate(ctx context.Context, pool *pgxpool.Pool) error {
	o, key := newOrder(), once.NewKey()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := claim(ctx, tx, insertUpdateRunning, key, o); err != nil {
			return err
		}
		r, err := o.place(ctx, tx)
		if err != nil {
			return err
		}
		return complete(ctx, tx, insertUpdateDone, key, r)
	})
}

// twoCommit is the usual middleware: the key is committed before the work and the
// response after it. A crash in between leaves a key whose outcome is unknown. Over HTTP its
// like is ./rivals/twocommit, which uses the table, too.
func twoCommit(ctx context.Context, pool *pgxpool.Pool) error {
	o, key := newOrder(), once.NewKey()
	if err := claim(ctx, pool, twoCommitRunning, key, o); err != nil {
		return err
	}
	var r receipt
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		r, err = o.place(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return complete(ctx, pool, twoCommitDone, key, r)
}

func claim(ctx context.Context, db execer, sql, key string, o order) error {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	fingerprint := o.fingerprint()
	tag, err := db.Exec(ctx, sql, scope, key, nonce, fingerprint[:])
	if err == nil && tag.RowsAffected() != 1 {
		err = errTaken
	}
	return err
}

func complete(ctx context.Context, db execer, sql, key string, r receipt) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tag, err := db.Exec(ctx, sql, scope, key, body)
	if err == nil && tag.RowsAffected() != 1 {
		err = errTaken
	}
	return err
}
