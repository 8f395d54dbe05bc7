package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestReadinessWritesRarely: after a write that has succeeded the next one waits; after one that has failed each question writes.
func TestReadinessWritesRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fails error
		writes, write := 0, probe(memstore.New())
		back := &backing{ask: func(context.Context) error { return nil }, write: func(ctx context.Context) error {
			writes++
			return errors.Join(fails, write(ctx))
		}}
		d := &daemon{proxy: &proxy{back: back, log: slog.New(slog.DiscardHandler)}}
		want := func(says error, n int) {
			t.Helper()
			if err := d.ready(t.Context()); !errors.Is(err, says) || (says == nil) != (err == nil) || writes != n {
				t.Errorf("%v after %d writes, want %v after %d", err, writes, says, n)
			}
		}
		want(nil, 1)
		want(nil, 1)
		<-time.After(writeEvery)
		fails = errors.New("the disk is full")
		want(errReadOnly, 2)
		want(errReadOnly, 3)
		fails = fmt.Errorf("a table: %w", store.ErrNotMigrated)
		want(errNoTables, 4)
		fails = nil
		want(nil, 5)
		want(nil, 5)
		back.ask = func(context.Context) error { return errors.New("no answer") }
		want(errSilent, 5)
	})
}
