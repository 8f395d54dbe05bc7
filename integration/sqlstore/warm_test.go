package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"
)

// TestWarmOpensConnectionsAhead: the connections are there before they are needed, and no more than the pool may have. A
// pool that closes them again is told of.
func TestWarmOpensConnectionsAhead(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		db.SetMaxOpenConns(5)
		db.SetMaxIdleConns(2)
		if err := s.Warm(t.Context(), 4); err == nil || !strings.Contains(err.Error(), "4 connections") || !strings.Contains(err.Error(), "closed 2") ||
			!strings.Contains(err.Error(), "Try: SetMaxIdleConns(4)") {
			t.Errorf("a pool that keeps two: %v", err)
		}
		db.SetMaxIdleConns(5)
		for want, n := range map[int]int{3: 3, 5: 100} {
			db.SetMaxIdleConns(0)
			db.SetMaxIdleConns(5)
			if err := s.Warm(t.Context(), n); err != nil || db.Stats().Idle != want {
				t.Errorf("Warm(%d): %v, %d idle", n, err, db.Stats().Idle)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Warm(ctx, 3); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "0 of 3") || !strings.Contains(err.Error(), "Try: ") {
			t.Error(err)
		}
	})
}
