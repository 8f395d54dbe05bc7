package consume

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestSinkErrorEndsThePool: an error of the sink ends the pool.
func TestSinkErrorEndsThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(&fakeSink{run: func(context.Context) error { return errFailed }}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }); !errors.Is(err, errFailed) {
			t.Error(err)
		}
		if _, err := New(&fakeSink{}, Config{Batch: -1}); err == nil {
			t.Error("a negative Batch")
		}
	})
}
