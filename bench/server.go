package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
)

// settings of the server. Commits are real. Periodic work (checkpoints, autovacuum) is kept out of the slices; without autovacuum nothing removes the
// dead rows of the baselines that update.
var settings = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"shared_buffers":     "1GB",
	"max_wal_size":       "16GB",
	"checkpoint_timeout": "1h",
	"autovacuum":         "off",
}

// server is a private PostgreSQL.
type server struct {
	pg        *testenv.Postgres
	databases int
}

func (s *server) close() {
	_ = s.pg.Close() // the janitor of testenv removes what stays
}

func (s *server) cpu() cpu { return cpu{postmaster: s.pg.Pid()} }

func startServer(ctx context.Context) (*server, error) {
	pg, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{Settings: settings})
	if err != nil {
		return nil, err
	}
	return &server{pg: pg}, nil
}

// newDatabase makes a database with the tables of every contestant.
func (s *server) newDatabase(ctx context.Context) (name string, err error) {
	if name, err = s.emptyDatabase(); err != nil {
		return "", err
	}
	pool, err := s.pool(ctx, name, 1, nil)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		return "", err
	}
	_, err = pool.Exec(ctx, businessSchema+baselineSchema)
	return name, err
}

// emptyDatabase makes a database without tables.
func (s *server) emptyDatabase() (name string, err error) {
	s.databases++
	name = fmt.Sprintf("bench%d", s.databases)
	return name, s.pg.CreateDatabase(name)
}

// pool opens a database. change, if it is not nil, changes the config.
func (s *server) pool(ctx context.Context, database string, size int32, change func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(s.pg.URL(database))
	if err != nil {
		return nil, err
	}
	cfg.MinConns, cfg.MaxConns = size, size
	if change != nil {
		change(cfg)
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// prepare executes known operations and returns a pool in the form that s needs, with a candidate on it that can replay them.
func (s *server) prepare(ctx context.Context, database string, known int, as setting) (*pgxpool.Pool, *candidate, error) {
	var change func(*pgxpool.Config)
	if as.delay > 0 {
		change = func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = network{as.delay}.dial }
	}
	pool, err := s.pool(ctx, database, int32(as.clients), change)
	if err != nil {
		return nil, nil, err
	}
	c := newCandidate(pool)
	if err := c.learn(ctx, known, as.clients); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, c, nil
}

// fsyncLatency is the median of writing and syncing one WAL page, on the disk of the server's data.
func fsyncLatency() (time.Duration, error) {
	f, err := os.CreateTemp("", "once-bench-fsync-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 8192)
	took := make([]float64, 201)
	for i := range took {
		began := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(began))
	}
	median, _, _ := spread(took)
	return time.Duration(median), nil
}
