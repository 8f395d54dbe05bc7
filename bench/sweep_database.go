package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlstore"
)

// loadExpired makes expired operations, each a millisecond after the one before.
const loadExpired = `
insert into once_operation (scope, key, claim, fingerprint, body, expires_at)
select 'expired', md5(g::text || clock_timestamp()), decode(md5(g::text), 'hex'), '\x00'::bytea || sha256(g::text::bytea), $1, now() - interval '1 day' + g * interval '1 ms'
from generate_series(1, $2) g`

func (b *bench) sweepPostgres(ctx context.Context) (*sweepField, error) {
	live := 1_000_000
	if b.quick {
		live = 100_000
	}
	s, err := b.stock(ctx, "sweep", live, sweepClients)
	if err != nil {
		return nil, err
	}
	sweepers, err := b.server.pool(ctx, s.pool.Config().ConnConfig.Database, 1, nil)
	if err != nil {
		return nil, err
	}
	return &sweepField{
		name: "PostgreSQL", offered: 500, run: s.sorted, sweeps: pgxstore.New(sweepers, pgxstore.Config{}),
		expire: func(ctx context.Context, rows int) error { return expirePostgres(ctx, sweepers, rows) },
		close:  func() error { sweepers.Close(); s.pool.Close(); return nil },
	}, nil
}

func expirePostgres(ctx context.Context, pool *pgxpool.Pool, rows int) error {
	body, err := newOrder().receipt()
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, loadExpired, body, rows); err != nil {
		return err
	}
	for _, sql := range []string{"vacuum analyze once_operation", "checkpoint"} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Expired operations are a day old, and the others expire in a day.
const (
	mysqlLoad = "insert into once_operation (scope, `key`, state, claim, fingerprint, body, since, expires_at) " +
		"select ?, md5(concat(seq, uuid())), 2, unhex(md5(seq)), concat(x'00', unhex(sha2(seq, 256))), ?, 0, unix_timestamp() * 1000 + ? + seq from seq_1_to_ROWS"
	sqliteLoad = `with recursive s(seq) as (select 1 union all select seq + 1 from s where seq < ROWS)
insert into once_operation (scope, key, claim, fingerprint, body, since, expires_at)
select ?, lower(hex(randomblob(16))), randomblob(16), randomblob(33), ?, 0, unixepoch() * 1000 + ? + seq from s`

	// Ascending keys, as once.NewKey makes them.
	sqliteKey    = "lower(hex(randomblob(16)))"
	sqliteSorted = "printf('%012x', seq) || lower(hex(randomblob(10)))"
)

func (b *bench) sweepMariaDB(ctx context.Context) (*sweepField, error) {
	server, err := testenv.StartMariaDB(ctx, testenv.MariaDBConfig{Settings: map[string]string{"innodb-buffer-pool-size": "512M", "innodb-log-file-size": "512M"}})
	if err != nil {
		return nil, err
	}
	return b.sweepSQL(ctx, sweepField{name: "MariaDB", offered: 250, close: server.Close}, "mysql", server.DSN("mysql")+"?interpolateParams=true", mysqlLoad)
}

func (b *bench) sweepSQLite(ctx context.Context) (*sweepField, error) {
	return b.sweepFile(ctx, "SQLite, random keys", sqliteLoad)
}

func (b *bench) sweepSQLiteSorted(ctx context.Context) (*sweepField, error) {
	return b.sweepFile(ctx, "SQLite, keys that sort by time", strings.Replace(sqliteLoad, sqliteKey, sqliteSorted, 1))
}

func (b *bench) sweepFile(ctx context.Context, name, load string) (*sweepField, error) {
	dir, err := os.MkdirTemp("", "once-bench-sweep-")
	if err != nil {
		return nil, err
	}
	dsn := "file:" + filepath.Join(dir, "bench.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)"
	return b.sweepSQL(ctx, sweepField{name: name, offered: 250, close: func() error { return os.RemoveAll(dir) }}, "sqlite", dsn, load)
}

// sweepSQL completes f.
func (b *bench) sweepSQL(ctx context.Context, f sweepField, driver, dsn, load string) (_ *sweepField, err error) {
	db, err := sqlstore.Open(driver, dsn)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	db.SetMaxIdleConns(sweepClients + 1)
	end := f.close
	f.close = func() error { return errors.Join(db.Close(), end()) }
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if err := sqlstore.Migrate(ctx, db); err != nil {
		return nil, err
	}
	schema := sqliteSchema
	if driver == "mysql" {
		schema = strings.NewReplacer(" text", " varchar(100)", "integer", "bigint").Replace(schema)
	}
	for table := range strings.SplitSeq(strings.TrimSuffix(schema, ";"), ";") {
		if _, err := db.ExecContext(ctx, table); err != nil {
			return nil, err
		}
	}
	fill := func(ctx context.Context, scope string, rows int, expires int64) error {
		body, err := newOrder().receipt()
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, strings.Replace(load, "ROWS", strconv.Itoa(rows), 1), scope, body, expires)
		return err
	}
	live := 100_000
	if b.quick {
		live = 10_000
	}
	const day = 24 * 60 * 60 * 1000
	if err := fill(ctx, "live", live, day); err != nil {
		return nil, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return nil, err
	}
	engine := once.New[*sql.Tx](s, once.Config{})
	f.run = func(ctx context.Context) error { return doSQL(ctx, engine) }
	f.sweeps = s
	f.expire = func(ctx context.Context, rows int) error { return fill(ctx, "expired", rows, -day) }
	return &f, nil
}
