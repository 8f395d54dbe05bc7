package integration

import (
	"net/url"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// fewest points of a store for the proof to count as one.
const fewest = 150

// TestKillAtEveryPoint kills a process at every point of an operation.
func TestKillAtEveryPoint(t *testing.T) {
	testenv.Core(t)
	testenv.Need(t, "postgresql", "mariadb", "mysql", "strace")
	for _, store := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, store)
			killClient(t, store)
		})
	}
	t.Run(harness.SQLite, func(t *testing.T) { t.Parallel(); killSQLite(t) })
}

// killClient kills clients of a server.
func killClient(t *testing.T, store string) {
	g := newTestDB(t, store)
	s := &killLoop{t: t, g: g, successor: g.open(t, setup{}), proxy: newHoldingProxy(t, address(t, g.DSN))}
	defer s.report(time.Now())
	for _, flow := range []string{flowDo, flowReplay, flowFailure, flowJoin, flowBatch, flowHTTP, flowTwice, flowTakeover} {
		s.loop(flow, byName, 1)
	}
	for _, flow := range []string{flowDo, flowReplay, flowFailure, flowJoin, flowBatch, flowHTTP, flowCold} {
		s.loop(flow, byWrite, 1)
		s.loop(flow, byRead, 1)
		s.loop(flow, byByte, int64(scale(70, 1)))
	}
}

// killSQLite has living neighbours first, who share the dead one's memory, and then
// no process: the next one has to recover the file.
func killSQLite(t *testing.T) {
	g := newTestDB(t, harness.SQLite)
	s := &killLoop{t: t, g: g, successor: g.open(t, setup{})}
	defer s.report(time.Now())
	s.loop(flowTwice, byName, 1)
	s.loop(flowHTTP, byName, 1)
	s.loop(flowHTTP, byWrite, 1)
	s.loop(flowHTTP, byRead, 1)
	for _, flow := range []string{flowDo, flowReplay, flowFailure, flowJoin} {
		s.loop(flow, byName, 1)
		for _, call := range syscalls {
			s.loop(flow, call, 1)
		}
	}
	for _, journal := range []string{"WAL", "DELETE"} {
		alone := &killLoop{t: t, g: sqliteTestDB(t, harness.SQLite+"-"+journal, journal)}
		for _, call := range syscalls {
			alone.loop(flowTakeover, call, 1)
		}
		s.tally.add(&alone.tally)
	}
}

// report prints what was met, and fails if it was too little.
func (s *killLoop) report(start time.Time) {
	testenv.Reportf(s.t, "%s: %v\nin %v, seed %d", s.g.name, &s.tally, time.Since(start).Round(time.Millisecond), seed())
	if onlyPoint() != "" || s.t.Failed() {
		return
	}
	if err := s.tally.vacuous(fewest); err != nil {
		s.t.Errorf("%v. %s", err, rerun(s.t))
	}
	if s.proxy != nil && s.tally.waited == 0 {
		s.t.Errorf("no successor has met an operation of the dead in flight. %s", rerun(s.t))
	}
}

func address(tb testing.TB, dsn string) string {
	tb.Helper()
	if cfg, err := mysql.ParseDSN(dsn); err == nil {
		return cfg.Addr
	}
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	return u.Host
}

// relocated is a data source name with another address.
func relocated(dsn, address string) string {
	if cfg, err := mysql.ParseDSN(dsn); err == nil {
		cfg.Addr = address
		return cfg.FormatDSN()
	}
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err) // it was used already
	}
	u.Host = address
	return u.String()
}
