package integration

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

// pair is a primary whose commits wait for its standby. Clients reach the one of them
// that is the primary through one address, and the judge looks at that one.
type pair struct {
	*testDB

	primary *testenv.Postgres
	standby *testenv.Standby
	front   *faultnet.Proxy
}

func newPair(t *testing.T, store string) *pair {
	t.Helper()
	testenv.Need(t, "postgresql", "pg_basebackup")
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pg, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{})
	must(err)
	t.Cleanup(func() { _ = pg.Close() })
	p := &pair{testDB: serverTestDB(t, store, pg.URL("postgres")), primary: pg}
	p.standby, err = testenv.StartStandby(ctx, pg, "standby")
	must(err)
	t.Cleanup(func() { _ = p.standby.Close() })
	must(pg.WaitsFor(ctx, p.standby))
	p.front, err = faultnet.Listen(pg.Addr())
	must(err)
	t.Cleanup(func() { _ = p.front.Close() })
	p.DSN = pg.URLVia(p.front.Addr(), "postgres")
	return p
}

// failover kills the primary and makes the standby the new one.
func (p *pair) failover(ctx context.Context) error {
	if err := p.primary.Kill(); err != nil {
		return err
	}
	return p.promote(ctx)
}

// promote makes the standby the primary.
func (p *pair) promote(ctx context.Context) error {
	if err := p.standby.Promote(ctx); err != nil {
		return err
	}
	p.front.SetUpstream(p.standby.Addr())
	p.front.CutAll()
	db, err := sql.Open("pgx", p.standby.URL("postgres"))
	if err == nil {
		_ = p.db.Close()
		p.db = db
	}
	return err
}

// In wait_event, who waits for the standby.
const waiting = `from pg_stat_activity where wait_event = 'SyncRep'`

// phantom has a client lose the answer to a commit that waits for the standby, and
// returns when the primary shows that commit, and the standby does not have it.
// If end is empty the client gives up by itself; else it is what an administrator
// does to the session.
func (p *pair) phantom(ctx context.Context, c *client, end string) error {
	if err := p.until(ctx, "select not exists (select "+waiting+")"); err != nil { // others who have given up
		return err
	}
	told := make(chan error, 1)
	go func() {
		_, err := c.ask(ctx)
		told <- err
	}()
	if end != "" {
		if err := p.until(ctx, "select coalesce(bool_or("+end+"(pid)), false) "+waiting); err != nil {
			return err
		}
	}
	if err := <-told; once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectInDoubt {
		return fmt.Errorf("of a commit that only the primary has, the client was told: %v", err) //nolint:errorlint // nil is what it must not be
	}
	return p.only(ctx, c.op.Key)
}

// only waits until the primary shows the record of a key. The standby must not have it.
func (p *pair) only(ctx context.Context, key string) error {
	find := "select exists (select from once_operation where key = '" + key + "')"
	if err := p.until(ctx, find); err != nil {
		return err
	}
	if has, err := p.standby.Query(ctx, "postgres", find); err != nil || has != "f" {
		return fmt.Errorf("the standby has the record: %q, %w", has, err)
	}
	return nil
}
