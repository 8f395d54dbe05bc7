package consume

import (
	"context"
	"time"
)

// Pause waits after so many failures in a row, or until ctx ends.
func Pause(ctx context.Context, failures int) {
	timer := time.NewTimer(backoff(failures))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
