package home

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
)

// TestMoveWaitsForOpenTransactions: a move waits for a transaction that has been checked and has not ended, whose writes then go along. Meanwhile other calls are
// refused and do not wait.
func TestMoveWaitsForOpenTransactions(t *testing.T) {
	s := open(t, harness.Postgres, func(d harness.Database) harness.Store[*sql.Tx] { s, _ := harness.OpenSQL(t, d); return s })
	must(t, s.mover(nil).Move(t.Context(), "acme", "eu"))
	eu := s["eu"]
	txn, _, err := eu.db.Begin(t.Context(), store.BeginOptions{})
	must(t, err)
	_, err = txn.Tx().ExecContext(t.Context(), "insert into effect (tenant, what) values ('acme', 'open')")
	must(t, err)
	must(t, eu.owned.Require(t.Context(), txn.Tx(), "acme")) // which package sqlstore runs at once
	moved := make(chan error, 1)
	go func() { moved <- s.mover(nil).Move(t.Context(), "acme", "us") }()
	harness.Until(t, func() error {
		select {
		case err := <-moved:
			t.Fatalf("the move has not waited: %v", err)
		default:
		}
		if harness.Count(t, eu.db, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 0 {
			return errors.New("the move does not wait yet")
		}
		return nil
	})
	if _, err := eu.pay(t.Context(), "acme", "other"); !isRefused(err) {
		t.Errorf("another call: %v", err)
	}
	must(t, txn.Commit(t.Context(), store.Change{}))
	must(t, <-moved)
	if got, owners := s.effects(t, "acme"), s.owners(t, "acme"); got["open"] != 1 || got["other"] != 0 || len(owners) != 1 || owners[0] != "us" {
		t.Errorf("effects %v, owned by %q", got, owners)
	}
}
