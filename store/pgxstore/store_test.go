package pgxstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

type charge struct{ ID string }

func insertCharge(id string) func(context.Context, pgx.Tx) (charge, error) {
	return func(ctx context.Context, tx pgx.Tx) (charge, error) {
		if _, err := tx.Exec(ctx, "insert into charge values ($1, 5)", id); err != nil {
			return charge{}, err
		}
		_, err := tx.Exec(ctx, "update account set balance = balance - 1 where id = 7")
		return charge{id}, err
	}
}

func TestDoExecutesThenReplays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	op := once.Operation{Scope: "t", Key: "k1", Fingerprint: once.FingerprintOf([]byte("a"))}
	for i := range 3 {
		r, err := once.Do(ctx, e, op, insertCharge("c1"))
		if err != nil || r.Value.ID != "c1" || r.Replayed != (i > 0) {
			t.Fatalf("call %d: %+v, %v", i, r, err)
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 1 {
		t.Fatalf("%d effects", n)
	}
	op.Fingerprint = once.FingerprintOf([]byte("b"))
	if _, err := once.Do(ctx, e, op, insertCharge("c1")); once.CodeOf(err) != once.CodeMismatch {
		t.Fatal(err)
	}
	op.Key = "k2"
	declined := func(ctx context.Context, tx pgx.Tx) (charge, error) {
		if _, err := insertCharge("c2")(ctx, tx); err != nil {
			return charge{}, err
		}
		return charge{}, &once.Failure{Code: "declined"}
	}
	for range 2 {
		_, err := once.Do(ctx, e, op, declined)
		if f := (*once.Failure)(nil); !errors.As(err, &f) || f.Code != "declined" {
			t.Fatal(err)
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 1 {
		t.Fatalf("%d effects", n)
	}
}
