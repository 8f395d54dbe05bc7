package integration

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// replicated is a server and its replica. Clients reach one of them through one address, as
// with a pool of two hosts, and the judge looks at the primary.
type replicated struct {
	*testDB

	primary *testenv.MariaDB
	replica *testenv.Replica
	front   *faultnet.Proxy
}

func newReplicated(t *testing.T, store string, settings map[string]string) *replicated {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	primary := startInnoDB(t, store, testenv.MariaDBConfig{Settings: testenv.ReplicationPrimary()})
	r := &replicated{primary: primary}
	var err error
	r.replica, err = testenv.StartReplica(ctx, primary, settings)
	must(err)
	t.Cleanup(func() { _ = r.replica.Close() })
	must(primary.CreateDatabase("app"))
	_, err = primary.Query(ctx, "", "create user service@'%'; grant all on app.* to service@'%'")
	must(err)
	r.testDB = serverTestDB(t, store, primary.DSN("app"))
	must(r.replica.CatchUp(ctx))
	r.front, err = faultnet.Listen(primary.Addr())
	must(err)
	t.Cleanup(func() { _ = r.front.Close() })
	return r
}

// reach has new connections end at a server, and cuts the others.
func (r *replicated) reach(m *testenv.MariaDB) {
	r.front.SetUpstream(m.Addr())
	r.front.CutAll()
}

// TestAReplicaSettlesNothing: a COMMIT was applied, its answer is lost, and those who ask
// reach a replica that does not have it yet. There the operation is absent, and who has the
// right to write to a replica can claim it. That proves nothing: the operation is in doubt
// until the primary can be asked, and nothing runs again meanwhile.
func TestAReplicaSettlesNothing(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for how, c := range map[string]struct {
		settings map[string]string
		user     string
	}{
		"read_only, by one who may write there": {map[string]string{"read-only": "ON"}, "root"},
		"read_only":                             {map[string]string{"read-only": "ON"}, "service"},
		"writable":                              {nil, "service"},
	} {
		for _, name := range innodbStores {
			if name == harness.MySQL && c.settings == nil {
				continue // MySQL tells its users nothing by which a replica could be recognised
			}
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				sampleMySQL(t, name)
				r := newReplicated(t, name, c.settings)
				r.DSN = c.user + "@tcp(" + r.front.Addr() + ")/app"
				if err := r.replica.Lag(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, flow := range []string{flowDo, flowFailure, flowBatch} {
					for _, comesBack := range []bool{false, true} {
						if err := r.settle(t, flow, comesBack, 500*time.Millisecond); err != nil {
							t.Errorf("%s, the primary comes back in time %t: %v. %s", flow, comesBack, err, rerun(t))
						}
					}
				}
			})
		}
	}
}

// settle has a client lose an answer, which it may settle for so long.
func (r *replicated) settle(t *testing.T, flow string, comesBack bool, settle time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	asked := 0
	if comesBack {
		settle = patience
	}
	r.reach(r.primary)
	defer r.reach(r.primary)
	lost := &forgetting{armed: true, applied: true, then: func() { r.reach(r.replica.MariaDB) }}
	s := r.open(t, setup{forget: lost, engine: once.Config{Runs: 3, Settle: settle}, hook: func(place string) {
		if lost.lost == 0 || place != "after begin" {
			return
		}
		if asked++; asked == 2 && comesBack {
			r.reach(r.primary)
		}
	}})
	defer s.Close()
	c := &client{s: s, name: "client", flow: flow, op: operation(once.NewKey())}
	got, told := c.ask(ctx)
	switch {
	case lost.lost == 1 && asked < 2 && settle < patience/4: // on a slow machine there was no time to
		return r.settle(t, flow, comesBack, 4*settle)
	case lost.lost != 1 || asked < 2:
		return fmt.Errorf("%d answers were lost, and the replica was asked %d times", lost.lost, asked)
	case comesBack && told != nil:
		return fmt.Errorf("when the primary was back: %w", told)
	case !comesBack && once.EffectOf(told) != once.EffectInDoubt:
		return fmt.Errorf("while only the replica could be asked, the client was told %+v, %w", got, told)
	}
	var n int
	replica, err := sql.Open("mysql", r.replica.DSN("app"))
	if err != nil {
		return err
	}
	defer replica.Close()
	if err := replica.QueryRowContext(ctx, "select (select count(*) from once_operation where `key` = ?) + (select count(*) from charge where `key` = ?)", c.op.Key, c.op.Key).Scan(&n); err != nil || n != 0 {
		return fmt.Errorf("the replica was written to: %d rows, %w", n, err)
	}
	r.reach(r.primary)
	if got, err = c.insist(ctx); err != nil {
		return err
	}
	if flow != flowFailure && got.Attempt != "client-0" {
		return fmt.Errorf("the first attempt was applied, and the answer is %+v", got)
	}
	return r.truthful(ctx, c, got)
}

// TestAReaderOfAuroraSettlesNothing: such a server is not set to read_only, and says by innodb_read_only that it is a reader.
func TestAReaderOfAuroraSettlesNothing(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	r := newReplicated(t, harness.MySQL, map[string]string{"read-only": "OFF"})
	r.DSN = "service@tcp(" + r.front.Addr() + ")/app"
	_, err := r.replica.Query(t.Context(), "", "stop replica; reset replica all") // it lags, for ever
	if err == nil {
		err = r.replica.RestartWith(t.Context(), map[string]string{"innodb-read-only": "ON"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, flow := range []string{flowDo, flowFailure, flowBatch} {
		for _, comesBack := range []bool{false, true} {
			if err := r.settle(t, flow, comesBack, 500*time.Millisecond); err != nil {
				t.Errorf("%s, the writer comes back in time %t: %v. %s", flow, comesBack, err, rerun(t))
			}
		}
	}
}

// TestAReplicaExecutesNothing, also if it could: nor does it give replays that must be
// durable, because a primary that was set to read_only has what its successor may lack.
func TestAReplicaExecutesNothing(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range innodbStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			executesNothing(t, newReplicated(t, name, map[string]string{"read-only": "ON"}))
		})
	}
}

func executesNothing(t *testing.T, r *replicated) {
	r.DSN = "root@tcp(" + r.front.Addr() + ")/app"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := operation(once.NewKey())
	if _, _, err := r.open(t, setup{}).Do(ctx, done, work{key: done.Key, attempt: "first"}); err != nil {
		t.Fatal(err)
	}
	if err := r.replica.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	r.reach(r.replica.MariaDB)
	for _, synced := range []bool{false, true} {
		s := r.open(t, setup{engine: once.Config{Synced: synced}})
		for flow, ask := range map[string]func(context.Context, once.Operation, work) (answer, bool, error){"Do": s.Do, "Join": s.Join, "batch": s.Batch} {
			got, replayed, err := ask(ctx, done, work{key: done.Key, attempt: "second"})
			if synced {
				if once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%s, synced: a replay %+v, %v", flow, got, err)
				}
			} else if err != nil || !replayed || got.Attempt != "first" {
				t.Errorf("%s: replayed %t, %+v, %v", flow, replayed, got, err)
			}
			for _, first := range []bool{false, true} {
				op := operation(once.NewKey())
				if first {
					op.Attempt.Number = 1
				}
				if got, _, err := ask(ctx, op, work{key: op.Key, attempt: "new"}); once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%s, synced %t, first %t: new work: %+v, %v", flow, synced, first, got, err)
				}
			}
		}
		if _, err := s.Ledger().Swap(ctx, store.Change{
			ID: store.ID{Scope: "replica", Key: once.NewKey()}, Retain: time.Hour,
			Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("claim")},
		}); store.KindOf(err) != store.KindUnavailable {
			t.Errorf("synced %t: a Swap: %v", synced, err)
		}
	}
	out, err := r.replica.Query(ctx, "app", "select count(*) from once_operation")
	if err != nil || out != "1" {
		t.Errorf("the replica has %s records, %v", out, err)
	}
}
