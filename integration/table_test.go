package integration

import (
	"context"
	"database/sql"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// askWithTable is a client whose journal is in a database: it resumes what an earlier
// process has left open. Then, unless it is a successor, it plans one thing in the transaction
// that makes it necessary, sends it, and asks for others itself.
func askWithTable(ctx context.Context, p plan) error {
	k := &killer{mode: p.Mode, at: p.At}
	db, err := openTableDB(p, k)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // nothing is sent in the background
	intents, err := openTable(ctx, db)
	if err != nil {
		return err
	}
	k.arm()
	k.named("after the journal was opened")
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:    &http.Transport{DialContext: k.wire.DialContext},
		Journal: intents,
	}}
	if err := resumeAll(ctx, k, intents, client, p); err != nil {
		return err
	}
	if p.Attempt == byVictim {
		if err := wish(ctx, k, db, intents, p); err != nil {
			return err
		}
		if err := resumeAll(ctx, k, intents, client, p); err != nil {
			return err
		}
		for n := 1; n < asked; n++ {
			k.named("before the call")
			if err := askFor(ctx, k, client, p, keyOf(p.Key, n)); err != nil {
				return err
			}
			k.named("closed")
		}
	}
	return db.Close()
}

func openTableDB(p plan, k *killer) (*sql.DB, error) {
	if p.Store == harness.SQLite {
		return sqlstore.Open("sqlite", p.Table)
	}
	cfg, err := pgx.ParseConfig(p.Table)
	if err != nil {
		return nil, err
	}
	cfg.DialFunc = k.wire.DialContext
	return sqlstore.OpenDB(sqlplane.PostgreSQL, stdlib.GetConnector(*cfg)), nil
}

func openTable(ctx context.Context, db *sql.DB) (*journal.Table, error) {
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return nil, err
	}
	return journal.OpenTable(s, journal.Config{})
}

// wish plans an intent with a business write.
func wish(ctx context.Context, k *killer, db *sql.DB, j *journal.Table, p plan) error {
	key := keyOf(p.Key, 0)
	query, args, err := j.Insert(journal.Intent{Key: key, Method: http.MethodPost, URL: p.DSN, Body: []byte("body")})
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	k.named("begun")
	if _, err := tx.ExecContext(ctx, insertReceipt, key, "wished for"); err != nil {
		return err
	}
	k.named("written")
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return err
	}
	k.named("planned")
	if err := tx.Commit(); err != nil {
		return err
	}
	k.named("committed")
	return nil
}

// table is a database of intents, and its judge.
type table struct {
	g *testDB
	j *journal.Table
}

// settle returns when the database has noticed the end of the victim.
func (b *table) settle(ctx context.Context, t *testing.T) {
	t.Helper()
	if b.g.Kind == harness.SQLite { // whose locks have ended with it
		return
	}
	if err := b.g.until(ctx, "select count(*) = 0 from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
}

// judge compares what was planned with the business write beside it.
func (b *table) judge(ctx context.Context, t *testing.T, p *point, key string, planned bool) {
	t.Helper()
	var wished bool
	if err := b.g.db.QueryRowContext(ctx, "select count(*) = 1 from receipt where key = $1", key).Scan(&wished); err != nil || wished && !planned || planned && !wished {
		t.Errorf("%s: wished for: %v, planned: %v, %v", p, wished, planned, err)
	}
}

// keys returns those of the open intents.
func (b *table) keys(string) (keys []string, err error) {
	list, err := b.j.List(context.Background())
	for _, in := range list {
		keys = append(keys, in.Key)
	}
	return keys, err
}

// TestTableKill is TestJournalKill for a journal in a database: the client is killed at the
// N-th of each kind of thing that it does, also while it plans an intent in its own
// transaction, and another process resumes what it has left.
func TestTableKill(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "postgresql", "strace")
	t.Parallel()
	kinds := map[string][]string{
		harness.Postgres: {byName, byWrite, byRead},
		harness.SQLite:   {byName, byWrite, "pwrite64"},
	}
	if long() {
		kinds[harness.SQLite] = append(kinds[harness.SQLite], byRead, byByte, "fsync", "fcntl")
	}
	for name, kinds := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &table{g: newTestDB(t, name)}
			b.g.db.SetMaxOpenConns(1) // all others are the victim's
			db, err := openTableDB(plan{Store: name, Table: b.g.DSN}, &killer{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			db.SetMaxIdleConns(-1)
			if b.j, err = openTable(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			s := &journalLoop{t: t, g: newTestDB(t, harness.SQLite), seen: map[string][]bool{}, flow: flowTable, answered: 6, table: b, look: b.keys}
			s.lay(kinds)
		})
	}
}
