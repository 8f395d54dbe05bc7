package integration

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestFullDisk leaves N pages of room on the disk of the database, N = 0, 1, 2, ...
// until an operation gets through.
func TestFullDisk(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	if !testenv.Isolated(t) {
		return
	}
	for _, store := range []string{harness.Pgx, harness.Postgres} {
		t.Run(store, func(t *testing.T) { t.Parallel(); fullPostgres(t, store) })
	}
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(harness.SQLite+" "+journal, func(t *testing.T) { t.Parallel(); fullSQLite(t, journal) })
	}
	for _, store := range innodbStores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, store)
			fullInnoDB(t, store, nil)
		})
		t.Run(store+" binlog", func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, store)
			settings := map[string]string{"log-bin": "binlog", "sync-binlog": "1"}
			maps.Copy(settings, withThreads(store))
			fullInnoDB(t, store, settings)
		})
	}
}

// cramped is a database whose disk can be full.
type cramped struct {
	trial

	disk     *testenv.Disk
	revive   func(context.Context) error // returns when there is a server again
	shortage []shortage
}

// shortage is a way in which an operation comes to need room.
type shortage struct {
	name    string
	prepare func(ctx context.Context, g *testDB) error
	paper   string // that the operation writes
	step    int64  // between two rooms, in pages
	settles []bool // what COMMIT has come to: the client is told that it is in doubt, or the engine finds out
}

func (c *cramped) run(t *testing.T, conns int) {
	start := time.Now()
	c.mend = func(ctx context.Context) error {
		return errors.Join(c.disk.Free(), c.revive(ctx), c.g.reconnect(ctx))
	}
	for _, s := range c.shortage {
		for _, settles := range s.settles {
			before := c.hits
			for pages := int64(0); ; pages += s.step {
				lost := c.lost.Load()
				told, err := c.visit(t, &s, pages, settles, conns)
				if err != nil {
					t.Fatalf("%s: %d pages of room, settles %t: %v. %s", s.name, pages, settles, err, rerun(t))
				}
				if told == nil && c.lost.Load() == lost {
					break
				}
				c.hits++
				testenv.Count("full disks", 1)
			}
			if c.hits == before {
				t.Errorf("%s, settles %t: the disk was never full. %s", s.name, settles, rerun(t))
			}
		}
	}
	testenv.Reportf(t, "%s: %v; in %v", c.g.name, &c.trial, time.Since(start).Round(time.Millisecond))
	if c.refused == 0 && c.lost.Load() == 0 || c.done == 0 {
		t.Errorf("vacuous. %s", rerun(t))
	}
}

func (c *cramped) visit(t *testing.T, s *shortage, pages int64, settles bool, conns int) (told error, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.endure(ctx, t, settles, conns, s.paper, func() error {
		return errors.Join(s.prepare(ctx, c.g), c.disk.Fill(pages))
	})
}

// executes prepares by a statement.
func executes(query string) func(context.Context, *testDB) error {
	return func(ctx context.Context, g *testDB) error {
		conn, err := g.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		for one := range strings.SplitSeq(query, ";;") {
			if _, err := conn.ExecContext(ctx, one); err != nil {
				return err
			}
		}
		return nil
	}
}

func fullPostgres(t *testing.T, store string) {
	pg, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{Disk: 192 << 20, Settings: map[string]string{
		"autovacuum": "off", "min_wal_size": "2MB", "max_wal_size": "64MB", "checkpoint_timeout": "1h",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	restarts := 0
	c := &cramped{trial: trial{g: serverTestDB(t, store, pg.URL("postgres"))}, disk: pg.Disk()}
	c.revive = func(ctx context.Context) error {
		if err := pg.WaitReady(ctx); err == nil {
			return nil
		}
		restarts++ // it has not found the room to recover, and has ended
		return pg.Restart(ctx)
	}
	c.shortage = []shortage{
		{name: "tables grow", prepare: executes("truncate charge, entry, ledger, receipt, once_operation"), paper: paper(24 << 10), step: int64(scale(5, 1)), settles: []bool{false}},
		{name: "the log grows", prepare: executes("checkpoint;;" + lastSegment), step: int64(scale(128, 16)), settles: []bool{false, true}},
	}
	c.run(t, 1)
	t.Logf("%d times the server had ended, for want of room to recover", restarts)
}

// lastSegment fills the write-ahead log, as far as there are files for it.
const lastSegment = `do $$ begin
	loop
		perform pg_logical_emit_message(false, 'torture', ''), pg_switch_wal();
		exit when not exists (select from pg_ls_waldir() where length(name) = 24 and name >= pg_walfile_name(pg_current_wal_insert_lsn()));
	end loop;
end $$`

func fullInnoDB(t *testing.T, store string, settings map[string]string) {
	m := startInnoDB(t, store, testenv.MariaDBConfig{Disk: 256 << 20, Settings: settings})
	deaths := supervise(t, m)
	c := &cramped{trial: trial{g: serverTestDB(t, store, m.DSN("mysql"))}, disk: m.Disk()}
	c.revive = func(context.Context) error { return nil }
	if settings != nil {
		c.revive = func(ctx context.Context) error { return wake(ctx, c.g) }
		c.shortage = []shortage{{name: "the binary log grows", prepare: executes(spareRoom), paper: paper(8 << 10), step: int64(scale(64, 16)), settles: []bool{false, true}[scale(1, 0):]}}
	} else {
		c.shortage = []shortage{{name: "tables grow", prepare: executes(truncateInnoDB), paper: paper(64 << 10), step: int64(scale(24, 1)), settles: []bool{false}}}
	}
	c.run(t, 2)
	t.Logf("the server has ended %d times", deaths())
}

// wake ends the minute that a server sleeps before it tries again to write a log.
func wake(ctx context.Context, g *testDB) error {
	for {
		tid := 0
		err := g.db.QueryRowContext(ctx, "select p.tid from "+threads(g.Kind)+" where p.command = 'Query' and p.id <> connection_id() limit 1").Scan(&tid)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		tracer, err := attach(ctx, tid, "restart_syscall,clock_nanosleep", "error=ETIMEDOUT")
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			continue // it has ended in between
		}
		for asleep := true; asleep && err == nil; {
			err = g.db.QueryRowContext(ctx, "select count(*) > 0 from "+threads(g.Kind)+" where p.command = 'Query' and p.tid = ?", tid).Scan(&asleep)
		}
		tracer.detach()
		if err != nil {
			return err
		}
	}
}

// spareRoom leaves free pages in the tables, and none in the binary log.
const spareRoom = "set autocommit = 0;;" +
	"insert into receipt (`key`, paper) values ('spare', repeat('x', 400000));;" +
	"insert into once_operation (scope, `key`, since, claim, body) values ('spare', 'spare', 0, '', repeat('x', 400000));;" +
	"rollback;;set autocommit = 1;;flush binary logs"

func fullSQLite(t *testing.T, journal string) {
	disk := testenv.NewDisk(t, 16<<20)
	c := &cramped{trial: trial{g: sqliteAt(t, disk.Path, harness.SQLite, journal)}, disk: disk}
	c.revive = func(context.Context) error { return nil }
	c.shortage = []shortage{{name: "the file grows", prepare: executes("vacuum;;pragma wal_checkpoint(truncate)"), paper: paper(24 << 10), step: int64(scale(2, 1)), settles: []bool{false}}}
	c.run(t, 1)
}
