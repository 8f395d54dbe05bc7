package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/faultnet"
)

// singles is how many sagas are started one by one while all nodes are idle.
const singles = 10

// sagaNodes are nodes that run sagas of other nodes.
type sagaNodes struct {
	wire   faultnet.Wire
	pools  []*pgxpool.Pool
	fields []*sagaField // the nodes
	ended  chan error
}

// openNodes opens nodes, with their connections.
func openNodes(ctx context.Context, open func(int32, func(*pgxpool.Config)) (*sagaField, error)) (*sagaNodes, error) {
	const nodes = 2
	n := &sagaNodes{ended: make(chan error, nodes)}
	for range nodes {
		f, err := open(sagaClients, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = n.wire.DialContext })
		if err != nil {
			return nil, err
		}
		n.pools = append(n.pools, f.pool)
		conns := make([]*pgxpool.Conn, sagaClients)
		for i := range conns {
			if conns[i], err = f.pool.Acquire(ctx); err != nil {
				return nil, err
			}
		}
		for _, c := range conns {
			c.Release()
		}
	}
	return n, nil
}

// run makes the nodes look for sagas until stop is called.
func (n *sagaNodes) run(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	n.fields = nil
	for _, pool := range n.pools {
		f := newSagaField(pool)
		n.fields = append(n.fields, f)
		go func() { n.ended <- f.runner.Run(ctx) }()
	}
	return func() (err error) {
		cancel()
		for range n.fields {
			err = errors.Join(err, <-n.ended)
		}
		return err
	}
}

// until waits until the nodes have completed so many sagas.
func (n *sagaNodes) until(ctx context.Context, sagas int64) error {
	for deadline := time.Now().Add(time.Minute); ; sleep(ctx, time.Millisecond) {
		var done int64
		for _, f := range n.fields {
			done += f.runner.Stats().Completed
		}
		switch {
		case done >= sagas:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %d of %d", errSagaLate, done, sagas)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func (n *sagaNodes) close() {
	for _, pool := range n.pools {
		pool.Close()
	}
}

// sagaDrain lets two nodes run sagas that another one has started, in turns with the floor: the same number of hand-written ones.
func (b *bench) sagaDrain(ctx context.Context, s *sagas) (*contestant, error) {
	open, err := b.sagaDatabase(ctx)
	if err != nil {
		return nil, err
	}
	f, err := open(sagaClients, nil)
	if err != nil {
		return nil, err
	}
	defer f.pool.Close()
	nodes, err := openNodes(ctx, open)
	if err != nil {
		return nil, err
	}
	defer nodes.close()
	row := sagaRow{Name: nameSagaDrain, Bars: sagaBars[nameSagaDrain]}
	drain, floor := &contestant{name: nameSagaDrain}, &contestant{name: nameSagaFloor, run: f.byHand}
	byHand := race{clients: sagaClients, slice: s.Slice / 2, cpu: b.server.cpu()}
	for range s.Rounds + 1 { // the first one fills caches
		l, commits, trips, err := b.drainSagas(ctx, nodes, f, s.Drained)
		if err != nil {
			return nil, err
		}
		raw, err := byHand.stint(ctx, floor)
		if err != nil {
			return nil, err
		}
		if row.Trips == 0 { // statements are prepared
			row.Trips = -1
			continue
		}
		row.Commits, row.Trips = commits, trips
		drain.laps, floor.laps = append(drain.laps, l), append(floor.laps, raw)
	}
	row.Throughput, row.CPU = sums(drain, floor)
	s.Rows = append(s.Rows, row)
	s.Single, err = nodes.singles(ctx, f)
	return drain, err
}

// drainSagas measures from the first look of the nodes to the end of the last saga.
func (b *bench) drainSagas(ctx context.Context, nodes *sagaNodes, f *sagaField, sagas int) (l lap, commits, trips float64, err error) {
	for n := 0; n < sagas; n += 100 {
		if _, err := f.start(ctx, 100); err != nil {
			return l, 0, 0, err
		}
	}
	before, err := f.written(ctx)
	if err != nil {
		return l, 0, 0, err
	}
	tripped := nodes.wire.Counts().RoundTrips
	client, server := b.server.cpu().used()
	began := time.Now()
	stop := nodes.run(ctx)
	err = nodes.until(ctx, int64(sagas))
	wall := time.Since(began)
	client2, server2 := b.server.cpu().used()
	tripped = nodes.wire.Counts().RoundTrips - tripped
	if err := errors.Join(err, stop()); err != nil {
		return l, 0, 0, err
	}
	after, err := f.written(ctx)
	n := time.Duration(sagas)
	return lap{wall / n, (client2 - client) / n, (server2 - server) / n, int64(sagas)}, 1 + float64(after-before)/float64(sagas), float64(tripped) / float64(sagas), err
}

// singles starts sagas, one after the other, while all nodes are idle, and returns the longest time that one has taken.
func (n *sagaNodes) singles(ctx context.Context, f *sagaField) (longest time.Duration, err error) {
	stop := n.run(ctx)
	for i := range singles {
		sleep(ctx, time.Duration(i)*100*time.Millisecond) // at different times between two looks
		began := time.Now()
		_, err := f.start(ctx, 1)
		if err == nil {
			err = n.until(ctx, int64(i)+1)
		}
		if err != nil {
			return 0, errors.Join(err, stop())
		}
		longest = max(longest, time.Since(began))
	}
	return longest, stop()
}
