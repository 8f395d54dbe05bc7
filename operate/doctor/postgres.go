package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/pgsql"
)

var postgresChecks = []check{
	{name: "pooler", ask: askPooler},
	{name: "version", ask: askPostgresVersion},
	{name: "claims", ask: askClaims},
	{name: "migrations", ask: askMigrations},
	{name: "primary", ask: askPrimary},
	{name: "fsync", ask: onOrFail("fsync", "a crash of the machine may lose acknowledged commits, or destroy the database")},
	{name: "full_page_writes", ask: onOrFail("full_page_writes", "after a crash of the machine a page may be half written, and recovery cannot repair the page")},
	{name: "synchronous_commit", ask: askSynchronousCommit},
	{name: "standby", ask: askStandby},
	{name: "idle_transactions", ask: askIdle},
	{name: "idle_connections", ask: askIdlePostgres},
	{name: "vanished_hosts", ask: askVanished},
	{name: "statements", ask: askStatements},
	{name: "clock", ask: askClock},
}

// askPooler is the first check, because no other check works through a pooler in statement mode.
func askPooler(ctx context.Context, p *examination) (Finding, error) {
	tx, err := p.DB.BeginTx(ctx, nil)
	if err != nil && strings.Contains(err.Error(), "statement pooling") {
		return fail("a connection pooler in statement mode is between this machine and the server: this mode does not support transactions", "set pool_mode = transaction in the pooler"), nil
	}
	if err != nil {
		return Finding{}, err
	}
	defer func() { _ = tx.Rollback() }() // the transaction has only read
	var pid uint32
	if err := tx.QueryRowContext(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return Finding{}, err
	}
	// The transaction ends before the next query, which may need the only connection.
	_ = tx.Rollback()
	if p.BackendPID == nil {
		return Finding{}, nil
	}
	// A pooler has sent another process ID to the driver.
	told, err := p.BackendPID(ctx)
	if p.pooler = told != pid; p.pooler {
		return fine("a connection pooler is between this machine and the server, and supports transactions. In transaction mode pgxstore needs default_query_exec_mode=exec, or PgBouncer 1.21 with max_prepared_statements"), err
	}
	return fine("no connection pooler is used"), err
}

// oldestPostgres is the oldest version that still gets bug fixes.
const oldestPostgres = 14

func askPostgresVersion(ctx context.Context, p *examination) (Finding, error) {
	var number int
	if err := p.DB.QueryRowContext(ctx, "select current_setting('server_version_num')::int").Scan(&number); err != nil {
		return Finding{}, err
	}
	return postgresVersion(number), nil
}

func postgresVersion(number int) Finding {
	if number < oldestPostgres*10_000 {
		return warn(fmt.Sprintf("PostgreSQL %d.%d is no longer maintained, and the library \"once\" is not tested with this version", number/10_000, number%10_000), fmt.Sprintf("use PostgreSQL %d or newer", oldestPostgres))
	}
	return fine("PostgreSQL %d.%d", number/10_000, number%10_000)
}

func askClaims(ctx context.Context, p *examination) (Finding, error) {
	var kept bool
	var version string
	err := p.DB.QueryRowContext(ctx, pgsql.ListedLock(pgsql.ProbeKey())).Scan(&kept, &version)
	if err == nil && !kept { // the server may hold locks without listing them: two sessions find out
		most := p.DB.Stats().MaxOpenConnections
		// Two sessions are needed to see whether a lock excludes the other one.
		p.DB.SetMaxOpenConns(2)
		kept, err = pgsql.ExcludesLock(ctx, p.DB)
		p.DB.SetMaxOpenConns(most)
	}
	if !kept {
		return warn("this server accepts advisory locks but does not hold them: duplicates on several nodes may each run the handler, and only one of the duplicates commits. The server is "+version, "use PostgreSQL itself, or make sure that your handlers may run twice at the same time"), err
	}
	return fine("the server holds advisory locks"), err
}

func askPrimary(ctx context.Context, p *examination) (Finding, error) {
	var recovering, readonly bool
	err := p.DB.QueryRowContext(ctx, "select pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean").Scan(&recovering, &readonly)
	switch {
	case recovering:
		return fail("this server is a standby and accepts no writes", "use the URL of the primary, or add target_session_attrs=read-write to the URL"), err
	case readonly:
		return fail("default_transaction_read_only is on: the library cannot write", "use another user or database, or turn the setting off"), err
	}
	return fine("the server accepts writes"), err
}

// onOrFail checks a setting that must be on, because without it a crash can lose commits.
func onOrFail(setting, otherwise string) func(context.Context, *examination) (Finding, error) {
	return func(ctx context.Context, p *examination) (Finding, error) {
		value, err := p.text(ctx, "select current_setting('"+setting+"')")
		if value == "off" {
			return fail(setting+" is off: "+otherwise, "alter system set "+setting+" = on; select pg_reload_conf()"), err
		}
		return fine("on"), err
	}
}

func askSynchronousCommit(ctx context.Context, p *examination) (Finding, error) {
	value, err := p.text(ctx, "select current_setting('synchronous_commit')")
	const try = "set synchronous_commit = on, at least for the role of the service"
	switch value {
	case "off":
		return warn("synchronous_commit is off: a crash of the server loses the last acknowledged commits. Each lost commit has a key and its effect, so a retry executes again", try), err
	case "local":
		return warn("synchronous_commit is local: no commit waits for a standby, and a failover loses the last acknowledged commits", try), err
	}
	return fine("%s", value), err
}

func askStandby(ctx context.Context, p *examination) (Finding, error) {
	var names string
	var standbys, waited, hidden int
	err := p.DB.QueryRowContext(ctx, `select current_setting('synchronous_standby_names'), count(*),
 count(*) filter (where sync_state in ('sync', 'quorum')), count(*) filter (where sync_state is null) from pg_stat_replication`).
		Scan(&names, &standbys, &waited, &hidden)
	const synced = "set once.Config{Synced: true} in the service, and then run once doctor --synced"
	switch {
	case err != nil:
		return Finding{}, err
	case names != "" && waited == 0 && hidden == 0:
		return fail(fmt.Sprintf("commits wait for the standby %s, which is not connected: no commit can complete", names), "start the standby, or change synchronous_standby_names"), nil
	case names != "" && !p.Synced:
		return warn(fmt.Sprintf("commits wait for the standby %s, but replays do not: a replay may return the result of a commit that the next failover loses", names), synced), nil
	case names != "":
		return fine("commits and replays wait for the standby %s", names), nil
	case standbys > 0:
		return warn(words.Counted(standbys, "standby exists", "standbys exist")+", but no commit waits for a standby: a failover loses the commits that the new primary has not received, and retries of these operations execute again",
			"if a standby may become the primary, set synchronous_standby_names, and "+synced), nil
	case p.Synced:
		return fine("the server has no standby: with Config.Synced each replay costs a commit, and gains nothing without a standby"), nil
	}
	return fine("the server has no standby"), nil
}

func askIdle(ctx context.Context, p *examination) (Finding, error) {
	value, err := p.text(ctx, "select current_setting('idle_in_transaction_session_timeout')")
	if value == "0" {
		return warn("idle_in_transaction_session_timeout is 0: if a handler hangs, or its machine is lost, the handler holds its key until its session ends",
			"alter role SERVICE set idle_in_transaction_session_timeout = '1min', or longer if your handlers pause longer between two statements"), err
	}
	return fine("the server ends an idle transaction after %s", value), err
}

// vanishedBound is how long the server may need to notice the loss of a client's machine, before the doctor reports this.
const vanishedBound = 10 * time.Minute

func askVanished(ctx context.Context, p *examination) (Finding, error) {
	var idle, interval, count, user, session int64
	err := p.DB.QueryRowContext(ctx, `select
 max(setting::bigint) filter (where name = 'tcp_keepalives_idle'), max(setting::bigint) filter (where name = 'tcp_keepalives_interval'),
 max(setting::bigint) filter (where name = 'tcp_keepalives_count'), max(setting::bigint) filter (where name = 'tcp_user_timeout'),
 max(setting::bigint) filter (where name = 'idle_in_transaction_session_timeout') from pg_settings`).Scan(&idle, &interval, &count, &user, &session)
	if err != nil {
		return Finding{}, err
	}
	// On a Unix socket these settings are 0.
	if idle == 0 && interval == 0 {
		return fine("the client and the server are on the same machine, so the server does not need these settings"), nil
	}
	noticed := time.Duration(idle+interval*count) * time.Second
	// With tcp_user_timeout the number of keepalives does not count.
	if user > 0 {
		noticed = min(noticed, time.Duration(idle)*time.Second+time.Duration(user)*time.Millisecond)
	}
	// The server ends an idle transaction after this time, even if it has not noticed the loss.
	if s := time.Duration(session) * time.Millisecond; s > 0 {
		noticed = min(noticed, s)
	}
	if noticed > vanishedBound {
		return warn(fmt.Sprintf("the server needs %s to notice that the machine of a client is lost. Until then the operation of this client holds its key", words.Span(noticed)),
			"set tcp_keepalives_idle = 60, tcp_keepalives_interval = 10 and tcp_keepalives_count = 3"), nil
	}
	return fine("the server notices within %s that the machine of a client is lost", words.Span(noticed)), nil
}

func askStatements(ctx context.Context, p *examination) (Finding, error) {
	var statement, lock string
	err := p.DB.QueryRowContext(ctx, "select current_setting('statement_timeout'), current_setting('lock_timeout')").Scan(&statement, &lock)
	if statement == "0" && lock == "0" {
		return warn("statement_timeout and lock_timeout are 0: a handler that waits for a locked row holds its key and a connection until its context ends, and the context may never end",
			"set a deadline in the context of each request, or alter role SERVICE set lock_timeout = '10s'"), err
	}
	return fine("statement_timeout %s, lock_timeout %s", statement, lock), err
}

func askClock(ctx context.Context, p *examination) (Finding, error) {
	var there time.Time
	sent := time.Now()
	err := p.DB.QueryRowContext(ctx, "select clock_timestamp()").Scan(&there)
	return clockFinding(there, sent, time.Now()), err
}

// clockBound is the difference of two clocks that confuses a person who compares two logs.
const clockBound = 2 * time.Second

// clockFinding compares the clock of the database with the clock of this machine, before and after the question. The time of the question cannot make
// the difference larger.
func clockFinding(there, sent, received time.Time) Finding {
	off, which := sent.Sub(there), "behind"
	if ahead := there.Sub(received); ahead > off {
		off, which = ahead, "ahead of"
	}
	if off > clockBound {
		return warn(fmt.Sprintf("the clock of the database is %s %s the clock of this machine. Leases and retention use only the clock of the database, but the times in the logs of the two machines differ", words.Span(off), which),
			"run NTP on both machines")
	}
	return fine("the clocks of the database and of this machine agree")
}
