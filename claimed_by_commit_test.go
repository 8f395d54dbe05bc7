package once_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// byCommit is a memstore whose transactions hold no claim: only a commit claims.
type byCommit struct{ *memstore.Store }

type commitClaimer struct{ store.Transaction[tx] }

func (commitClaimer) ClaimsByCommit() bool { return true }

func (s byCommit) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[tx], store.Record, error) {
	looked, rec, err := s.Store.Begin(ctx, opts)
	if err != nil || looked == nil {
		return nil, rec, err
	}
	if err := looked.Rollback(ctx); err != nil {
		return nil, rec, err
	}
	opts.ID = store.ID{}
	txn, rec, err := s.Store.Begin(ctx, opts)
	return commitClaimer{txn}, rec, err
}

// TestACommitThatClaimsMayBeTooLate: between the look-up of a call and its commit another call may have executed the
// operation, and its record may be swept. A call whose client says when it began does not execute it again then.
func TestACommitThatClaimsMayBeTooLate(t *testing.T) {
	for _, declined := range []bool{false, true} {
		s := byCommit{memstore.New()}
		op := once.Operation{Scope: "s", Key: "k", Retain: time.Hour, Attempt: once.Attempt{FirstSent: time.Now()}}
		inner := 0
		_, err := once.Do(t.Context(), once.New(s, once.Config{}), op, func(ctx context.Context, _ tx) (string, error) {
			_, err := once.Do(context.Background(), once.New(s, once.Config{}), op, func(context.Context, tx) (string, error) {
				inner++
				return "the first", nil
			})
			if err != nil {
				t.Error(err)
			}
			s.Advance(3 * time.Hour)
			if swept, err := s.Sweep(ctx, upkeep.Sweep{Limit: 10}); err != nil || swept.Rows != 1 {
				t.Errorf("Sweep: %+v, %v", swept, err)
			}
			if declined {
				return "", &once.Failure{Code: "declined"}
			}
			return "the second", nil
		})
		if once.CodeOf(err) != once.CodeStale || once.EffectOf(err) != once.EffectNotApplied || inner != 1 {
			t.Errorf("declined %t: %v after %d runs of the other call", declined, err, inner)
		}
		if rec, err := s.Read(t.Context(), store.ID{Scope: "s", Key: "k"}); err != nil || rec.State != store.StateAbsent {
			t.Errorf("declined %t: stored is %+v, %v", declined, rec, err)
		}
	}
}

// TestOneCallExecutesWhatACommitClaims: in one process duplicates are led by one call, also where the store sees nothing in flight.
func TestOneCallExecutesWhatACommitClaims(t *testing.T) {
	s := byCommit{memstore.New()}
	e := once.New(s, once.Config{})
	op := once.Operation{Scope: "s", Key: "k"}
	_, err := once.Do(t.Context(), e, op, func(context.Context, tx) (string, error) {
		_, err := once.Do(context.Background(), e, op, charge("k"))
		if once.CodeOf(err) != once.CodeInFlight {
			t.Errorf("a duplicate beside it: %v", err)
		}
		return "", nil
	})
	if err != nil {
		t.Error(err)
	}
}
