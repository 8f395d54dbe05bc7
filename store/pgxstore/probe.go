package pgxstore

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/sql/pgsql"
)

// probe finds out whether the server keeps advisory locks. Each transaction and each sweep of a Store calls probe
// until it has an answer. Join and Swap do not need it, because a claim does not settle their lost commits. If another
// Store has found that a connection keeps locks, probe does not ask this connection again.
func (s *Store) probe(ctx context.Context, conn *pgx.Conn) error {
	if s.probed.Load() {
		return nil
	}
	// The simple protocol needs no prepared statement, so the probe works through every pooler.
	if conn.PgConn().CustomData()[probedKey] == nil {
		var listed bool
		var server string
		if err := conn.QueryRow(ctx, pgsql.ListedLock(pgsql.ProbeKey()), pgx.QueryExecModeSimpleProtocol).Scan(&listed, &server); err != nil {
			return down(err)
		}
		if !listed {
			// The server may keep locks without listing them. Only a second session can find this out.
			return s.probeApart(ctx, server)
		}
		conn.PgConn().CustomData()[probedKey] = true
	}
	s.probed.Store(true)
	return nil
}

const probedKey = "once.probed"

// probing is a running probe, for which all operations wait.
type probing struct {
	done chan struct{}
	err  error
}

// probeApart probes a server that does not list its locks. All operations wait for the same probe.
func (s *Store) probeApart(ctx context.Context, server string) error {
	s.probing.Lock()
	p := s.probingNow
	switch {
	case s.probed.Load(): // another operation has finished the probe meanwhile
		s.probing.Unlock()
		return nil
	case p == nil:
		p = &probing{done: make(chan struct{})}
		s.probingNow = p
		go func() {
			// The probe does not end with the context of its caller, because other operations wait for the result.
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
			defer cancel()
			p.err = s.findOut(within, server)
			s.probing.Lock()
			s.probingNow = nil
			s.probing.Unlock()
			close(p.done)
		}()
	}
	s.probing.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return down(ctx.Err())
	}
}

// findOut tries from a second session whether a lock excludes it.
func (s *Store) findOut(ctx context.Context, server string) error {
	cfg := s.pool.Config()
	// The probe uses a separate pool, because the pool of the store may have no second connection.
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 2, 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return down(err)
	}
	defer pool.Close()
	excludes, err := excludesLock(ctx, pool)
	if err != nil {
		return down(err)
	}
	if s.byCommit.Store(!excludes); !excludes {
		slog.WarnContext(ctx, pgsql.Unkept, "server", server)
	}
	s.probed.Store(true)
	return nil
}

// excludesLock reports whether a session cannot take a lock that another session holds.
func excludesLock(ctx context.Context, pool *pgxpool.Pool) (excludes bool, err error) {
	key := pgsql.ProbeKey()
	first, err := pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = first.Rollback(context.WithoutCancel(ctx)) }()
	var granted, second bool
	if err := first.QueryRow(ctx, pgsql.TryLock(key), pgx.QueryExecModeSimpleProtocol).Scan(&granted); err != nil {
		return false, err
	}
	err = pool.QueryRow(ctx, pgsql.TryLock(key), pgx.QueryExecModeSimpleProtocol).Scan(&second)
	// An error of the second session is returned, so that a failed probe is not taken for an answer.
	return err == nil && granted && !second, err
}
