package lease

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
)

// TestPhaseOfMyISAM: a phase that fails has written to a table that ROLLBACK does not roll back. It is unknown, and does not run
// again.
func TestPhaseOfMyISAM(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, o opening, _ network, heir program) {
		s := o.mustOpenSQL(t)
		_, err := heir.db.Pool().Exec(t.Context(), heir.db.text("create table notes (n int not null) engine = MyISAM"))
		must(t, err)
		e := once.New(lease.New(s, lease.Config{TTL: ttl}), once.Config{Observer: once.Discard})
		failed, runs := errors.New("failed"), 0
		do := func() error {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "notes", Key: "k"}, func(ctx context.Context, r *lease.Run) (int, error) {
				return lease.Tx(ctx, r, s, "note", func(ctx context.Context, tx *sql.Tx) (int, error) {
					runs++
					_, err := tx.ExecContext(ctx, "insert into notes values (1)")
					return 0, errors.Join(err, failed)
				})
			})
			return err
		}
		if err := do(); once.EffectOf(err) != once.EffectInDoubt {
			t.Error(err)
		}
		if err := do(); once.CodeOf(err) != once.CodeUnknown || runs != 1 {
			t.Errorf("the retry: %v, after %d runs", err, runs)
		}
	})
}
