package testenv

import "testing"

// TestReplicaFollowsAndLags: it has what its primary has had, and while it lags nothing that came later.
func TestReplicaFollowsAndLags(t *testing.T) {
	Prove(t)
	Need(t, "mariadb")
	ctx := t.Context()
	primary, err := StartMariaDB(ctx, MariaDBConfig{Settings: ReplicationPrimary()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Close() })
	r, err := StartReplica(ctx, primary, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	run := func(m *MariaDB, sql, want string) {
		t.Helper()
		if got, err := m.Query(ctx, "", sql); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", sql, got, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	run(primary, "create database app; create table app.t (n int); insert into app.t values (1)", "")
	must(r.CatchUp(ctx))
	run(r.MariaDB, "select count(*) from app.t", "1")
	must(r.Lag(ctx))
	run(primary, "insert into app.t values (2)", "")
	run(r.MariaDB, "select count(*) from app.t", "1")
	must(r.Heal(ctx))
	run(r.MariaDB, "select count(*) from app.t", "2")
}
