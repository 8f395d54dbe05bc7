package pgxstore_test

import (
	"context"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/pgxstore"
)

// declare is insertCharge as a batch.
func declare(id string) func(*once.Batch) (charge, error) {
	return func(b *once.Batch) (charge, error) {
		b.Exec("insert into charge values ($1, 5)", id)
		b.ExecRows(1, "update account set balance = balance - 1 where id = $1", 7)
		return charge{id}, nil
	}
}

func TestBatchExecutesThenReplays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	op := once.Operation{Scope: "t", Key: "k1", Fingerprint: once.FingerprintOf([]byte("a"))}
	for i := range 3 {
		e := once.New(pgxstore.New(pool), once.Config{})
		r, err := once.DoBatch(ctx, e, op, declare("c1"))
		if err != nil || r.Value.ID != "c1" || r.Replayed != (i > 0) {
			t.Fatalf("call %d: %+v, %v", i, r, err)
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 1 {
		t.Fatalf("%d effects", n)
	}
	op.Fingerprint = once.FingerprintOf([]byte("b"))
	e := once.New(pgxstore.New(pool), once.Config{})
	if _, err := once.DoBatch(ctx, e, op, declare("c1")); once.CodeOf(err) != once.CodeMismatch || once.EffectOf(err) != once.NotApplied {
		t.Fatal(err)
	}
}
