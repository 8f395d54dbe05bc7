package lease

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// pointStore passes points, none of them while leases are renewed.
type pointStore[TX any] struct{ harness.Points[TX] }

// renewing is locked while leases are renewed.
var renewing sync.Mutex

// Reserve implements sqlplane.Reserver.
func (s *pointStore[TX]) Reserve() (own sqlplane.Database, release func(), err error) {
	reserver, _ := store.As[sqlplane.Reserver](s.Store)
	own, release, err = reserver.Reserve()
	return renewable{own}, release, err
}

// renewable is a database in which leases are renewed.
type renewable struct{ sqlplane.Database }

// Renew implements store.Renewer.
func (d renewable) Renew(ctx context.Context, holds []store.Hold, lease time.Duration) ([]store.Hold, error) {
	renewing.Lock()
	defer renewing.Unlock()
	renewer, _ := store.As[store.Renewer](d.Database)
	return renewer.Renew(ctx, holds, lease)
}
