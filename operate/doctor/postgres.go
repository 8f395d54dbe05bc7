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
	{name: "fsync", ask: onOrFail("fsync", "after a crash of the machine a commit that was acknowledged may be gone, or the database")},
	{name: "full_page_writes", ask: onOrFail("full_page_writes", "after a crash of the machine a page may be half written, and recovery does not mend it")},
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
		return fail("a pooler in statement mode is in the way: there are no transactions", "pool_mode = transaction"), nil
	}
	if err != nil {
		return Finding{}, err
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	var pid uint32
	if err := tx.QueryRowContext(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return Finding{}, err
	}
	_ = tx.Rollback()
	if p.BackendPID == nil {
		return Finding{}, nil
	}
	told, err := p.BackendPID(ctx)
	if p.pooler = told != pid; p.pooler {
		return fine("one is in the way, and has transactions. In transaction mode pgxstore needs default_query_exec_mode=exec, or PgBouncer 1.21 with max_prepared_statements"), err
	}
	return fine("none is in the way"), err
}

// oldestPostgres is the oldest version that still gets fixes.
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
		return warn(fmt.Sprintf("PostgreSQL %d.%d is older than any that is maintained, and once is not tested with it", number/10_000, number%10_000), fmt.Sprintf("PostgreSQL %d or newer", oldestPostgres))
	}
	return fine("PostgreSQL %d.%d", number/10_000, number%10_000)
}

func askClaims(ctx context.Context, p *examination) (Finding, error) {
	var kept bool
	var version string
	err := p.DB.QueryRowContext(ctx, pgsql.ListedLock(pgsql.ProbeKey())).Scan(&kept, &version)
	if err == nil && !kept { // it may keep them and not list them
		most := p.DB.Stats().MaxOpenConnections
		p.DB.SetMaxOpenConns(2)
		kept, err = pgsql.ExcludesLock(ctx, p.DB)
		p.DB.SetMaxOpenConns(most)
	}
	if !kept {
		return warn("this server accepts advisory locks and does not keep them: operations are claimed by their commits, so that duplicates on several nodes may each run the handler, of which one commits: "+version, "PostgreSQL itself, unless a handler may run twice at a time"), err
	}
	return fine("advisory locks are kept"), err
}

func askPrimary(ctx context.Context, p *examination) (Finding, error) {
	var recovering, readonly bool
	err := p.DB.QueryRowContext(ctx, "select pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean").Scan(&recovering, &readonly)
	switch {
	case recovering:
		return fail("this is a standby, which takes no writes", "the URL of the primary, or target_session_attrs=read-write in it"), err
	case readonly:
		return fail("default_transaction_read_only is on: nothing can be written", "another user or database, or to turn it off"), err
	}
	return fine("it takes writes"), err
}

// onOrFail checks a setting that must be on, because a crash can lose commits without it.
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
	const try = "synchronous_commit = on, for the service's role at least"
	switch value {
	case "off":
		return warn("off: a crash of the server takes the last commits that were acknowledged, key and effect together, and a retry executes again", try), err
	case "local":
		return warn("local: no commit waits for a standby, and a failover takes the last ones that were acknowledged", try), err
	}
	return fine("%s", value), err
}

func askStandby(ctx context.Context, p *examination) (Finding, error) {
	var names string
	var standbys, waited, hidden int
	err := p.DB.QueryRowContext(ctx, `select current_setting('synchronous_standby_names'), count(*),
 count(*) filter (where sync_state in ('sync', 'quorum')), count(*) filter (where sync_state is null) from pg_stat_replication`).
		Scan(&names, &standbys, &waited, &hidden)
	const synced = "once.Config{Synced: true}, and then once doctor --synced"
	switch {
	case err != nil:
		return Finding{}, err
	case names != "" && waited == 0 && hidden == 0:
		return fail(fmt.Sprintf("commits wait for %s, which is not there: none of them ends", names), "to start the standby, or to change synchronous_standby_names"), nil
	case names != "" && !p.Synced:
		return warn(fmt.Sprintf("commits wait for %s, but replays do not: one may tell of a commit that the next failover takes away", names), synced), nil
	case names != "":
		return fine("commits and replays wait for %s", names), nil
	case standbys > 0:
		return warn(fmt.Sprintf("%d follow, and nothing waits for them: what they have not got is lost in a failover, and retries of it execute again", standbys),
			"if one may take over: synchronous_standby_names, and "+synced), nil
	case p.Synced:
		return fine("there is none to wait for: Synced costs each replay a commit, and gains nothing yet"), nil
	}
	return fine("there is none"), nil
}

func askIdle(ctx context.Context, p *examination) (Finding, error) {
	value, err := p.text(ctx, "select current_setting('idle_in_transaction_session_timeout')")
	if value == "0" {
		return warn("idle_in_transaction_session_timeout is 0: a handler that hangs, or whose host has vanished, keeps its operation in flight for as long as its session lasts",
			"alter role SERVICE set idle_in_transaction_session_timeout = '1min', longer than a handler may think between two statements"), err
	}
	return fine("ended after %s", value), err
}

// vanishedBound is how long operations of a dead host may stay in flight before this is reported.
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
	if idle == 0 && interval == 0 {
		return fine("this connection is local: no host can vanish"), nil
	}
	noticed := time.Duration(idle+interval*count) * time.Second
	if user > 0 {
		noticed = min(noticed, time.Duration(idle)*time.Second+time.Duration(user)*time.Millisecond)
	}
	if s := time.Duration(session) * time.Millisecond; s > 0 {
		noticed = min(noticed, s)
	}
	if noticed > vanishedBound {
		return warn(fmt.Sprintf("the server notices after %s that a client's host is gone, and keeps its operation in flight until then", words.Span(noticed)),
			"tcp_keepalives_idle = 60, tcp_keepalives_interval = 10, tcp_keepalives_count = 3"), nil
	}
	return fine("noticed after %s at most", words.Span(noticed)), nil
}

func askStatements(ctx context.Context, p *examination) (Finding, error) {
	var statement, lock string
	err := p.DB.QueryRowContext(ctx, "select current_setting('statement_timeout'), current_setting('lock_timeout')").Scan(&statement, &lock)
	if statement == "0" && lock == "0" {
		return warn("statement_timeout and lock_timeout are 0: a handler that waits for a row holds its operation and a connection until its context ends, if that has an end",
			"a deadline in each request's context, or alter role SERVICE set lock_timeout = '10s'"), err
	}
	return fine("statement_timeout %s, lock_timeout %s", statement, lock), err
}

func askClock(ctx context.Context, p *examination) (Finding, error) {
	var there time.Time
	sent := time.Now()
	err := p.DB.QueryRowContext(ctx, "select clock_timestamp()").Scan(&there)
	return clockFinding(there, sent, time.Now()), err
}

// clockBound is a difference that is confusing when two logs are compared.
const clockBound = 2 * time.Second

// clockFinding compares the database's clock with this machine's, before and after it
// was asked.
func clockFinding(there, sent, received time.Time) Finding {
	off, which := sent.Sub(there), "behind"
	if ahead := there.Sub(received); ahead > off {
		off, which = ahead, "ahead of"
	}
	if off > clockBound {
		return warn(fmt.Sprintf("the database's is %s %s this machine's. Leases and retention go by the database's alone, but the times in logs will not agree", words.Span(off), which),
			"NTP on both")
	}
	return fine("the database's and this machine's agree")
}
