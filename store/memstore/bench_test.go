package memstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// An operation must stay cheap here: the middleware's own cost is measured on top.
func BenchmarkExecuteInMemory(b *testing.B) {
	s := memstore.New()
	ctx := context.Background()
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	done := store.Record{
		State: store.StateDone, Fence: 1, Nonce: make([]byte, 16), Fingerprint: make([]byte, 33),
		Result: store.Result{Status: 201, Body: make([]byte, 128)},
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(keys) == 0 {
			s.Advance(2 * time.Hour) // all have expired: the table does not grow
		}
		id := store.ID{Scope: "bench", Key: keys[i%len(keys)]}
		txn, rec, err := s.Begin(ctx, store.BeginOptions{ID: id})
		if err != nil || txn == nil {
			b.Fatal(rec, err)
		}
		if err := txn.Tx().Put(id.Key, "x"); err != nil {
			b.Fatal(err)
		}
		if err := txn.Commit(ctx, store.Change{ID: id, Next: done, Retain: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplayFromMemory(b *testing.B) {
	s := memstore.New()
	ctx := context.Background()
	id := store.ID{Scope: "bench", Key: "k"}
	_, err := s.Swap(ctx, store.Change{ID: id, Next: store.Record{State: store.StateDone, Result: store.Result{Body: make([]byte, 128)}}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if txn, _, err := s.Begin(ctx, store.BeginOptions{ID: id}); err != nil || txn != nil {
			b.Fatal(err)
		}
	}
}
