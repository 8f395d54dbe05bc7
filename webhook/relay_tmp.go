package webhook

import (
	"context"

	"github.com/oncelib/once/store/sqlplane"
)

func (c *Config) sendIn(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, e Event) error {
	return nil
}
