package consume

import (
	"context"

	"github.com/oncelib/once/internal/base/sleep"
)

// Pause waits after a number of failures in a row, or until ctx ends.
func Pause(ctx context.Context, failures int) {
	sleep.For(ctx, backoff(failures))
}
