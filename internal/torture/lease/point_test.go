package lease

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

type pgconnDial = func(ctx context.Context, network, address string) (net.Conn, error)

// sqlStore is a store with transactions and tables.
type sqlStore[TX any] interface {
	store.Store[TX]
	sqlplane.SQL[TX]
}

// pointStore is a store that passes a point before and after each thing that it is asked to do. Heartbeats pass none: they come when
// they come.
type pointStore[TX any] struct {
	sqlStore[TX]

	at func(point string)
}

// Unwrap lets the other abilities of the store be found.
func (s *pointStore[TX]) Unwrap() any { return s.sqlStore }

// renewing is locked while leases are renewed.
var renewing sync.Mutex

// Reserve implements sqlplane.Reserver.
func (s *pointStore[TX]) Reserve() (own sqlplane.Database, release func(), err error) {
	reserver, _ := store.As[sqlplane.Reserver](s.sqlStore)
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

func (s *pointStore[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	s.at("read")
	return s.sqlStore.Read(ctx, id)
}

func (s *pointStore[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	s.at("swap")
	defer s.at("swapped")
	return s.sqlStore.Swap(ctx, c)
}

func (s *pointStore[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Claim[TX], store.Record, error) {
	s.at("begin")
	c, rec, err := s.sqlStore.Begin(ctx, opts)
	if c == nil {
		return c, rec, err
	}
	return &pointClaim[TX]{c, s.at}, rec, err
}

func (s *pointStore[TX]) On(tx TX) sqlplane.Runner { return pointRunner{s.sqlStore.On(tx), s.at} }

type pointClaim[TX any] struct {
	store.Claim[TX]

	at func(point string)
}

func (c *pointClaim[TX]) Unwrap() any { return c.Claim }

func (c *pointClaim[TX]) Commit(ctx context.Context, ch store.Change) error {
	c.at("commit")
	defer c.at("committed")
	return c.Claim.Commit(ctx, ch)
}

type pointRunner struct {
	sqlplane.Runner

	at func(point string)
}

func (r pointRunner) Exec(ctx context.Context, st store.Statement) (int64, error) {
	r.at("statement")
	defer r.at("statement answered")
	return r.Runner.Exec(ctx, st)
}
