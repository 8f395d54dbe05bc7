package harness

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// LeasePoints are Points of a store that keeps leases. [Strike] waits while leases are renewed.
type LeasePoints[TX any] struct{ Points[TX] }

// renewing is locked while leases are renewed.
var renewing sync.Mutex

// Reserve implements sqlplane.Reserver.
func (s *LeasePoints[TX]) Reserve() (own sqlplane.Database, release func(), err error) {
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

// Strike kills this process, or prints "stop" and stops it until it is woken. One that is stopped while it renews a lease would keep what it
// has locked, as a whole file of SQLite.
func Strike(signal syscall.Signal) {
	if signal == syscall.SIGKILL {
		_ = syscall.Kill(os.Getpid(), signal)
		select {}
	}
	renewing.Lock()
	defer renewing.Unlock()
	_, _ = fmt.Fprintln(os.Stdout, "stop")
	if err := Stop(); err != nil {
		panic(err)
	}
}
