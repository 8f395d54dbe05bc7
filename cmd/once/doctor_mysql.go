package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// mysqlChecks are for MySQL and MariaDB.
var mysqlChecks = []check{
	{"migrations", askMigrations},
	{"read_only", askReadOnly},
	{"engines", askEngines},
	{"flush_log", askVariable("innodb_flush_log_at_trx_commit", "1", judgeFlushLog)},
	{"doublewrite", askVariable("innodb_doublewrite", "ON", judgeDoublewrite)},
	{"sync_binlog", askSyncBinlog},
	{"idle_timeout", askVariable("idle_transaction_timeout", "", judgeIdleTransaction)}, // MariaDB's
	{"lock_timeout", askVariable("innodb_lock_wait_timeout", "", judgeLockWait)},
	{"semi_sync", askVariable("rpl_semi_sync_master_enabled", "", judgeSemiSync)},
	{"semi_sync", askVariable("rpl_semi_sync_source_enabled", "", judgeSemiSync)}, // since MySQL 8.0.26
	{"replicas", askReplicas},
	{"unknown", askUnknown},
	{"lapsed", askLapsed},
	{"expired", askExpired},
}

// askVariable asks for a global variable and judges it. One that is not there, because
// it belongs to a plugin or to another version, has the value otherwise; if that is
// empty there is nothing to judge.
func askVariable(name, otherwise string, judge func(value string) finding) func(context.Context, *patient) (finding, error) {
	return func(ctx context.Context, p *patient) (finding, error) {
		value := otherwise
		if err := none(p.QueryRowContext(ctx, "show global variables like '"+name+"'").Scan(new(string), &value)); err != nil || value == "" {
			return finding{}, err
		}
		return judge(value), nil
	}
}

// askReadOnly asks whether the server takes writes, and should not.
func askReadOnly(ctx context.Context, p *patient) (finding, error) {
	var value string
	if err := none(p.QueryRowContext(ctx, "show global variables like 'read_only'").Scan(new(string), &value)); err != nil || value == "" {
		return finding{}, err
	}
	var following int // MariaDB's: threads that apply what another server has committed
	if err := none(p.QueryRowContext(ctx, "show global status like 'Slaves_running'").Scan(new(string), &following)); err != nil {
		return finding{}, err
	}
	return judgeReadOnly(value, following), nil
}

func judgeReadOnly(value string, following int) finding {
	switch {
	case value != "OFF" && value != "0":
		return fail.because("read_only is on: this is a replica, which takes no writes", "the primary")
	case following > 0:
		return warn.because("this server replicates from another one and takes writes: an operation that reaches both is executed twice", "set global read_only = 1 if it is a replica")
	}
	return fine("it takes writes")
}

// askEngines asks for tables of the database that no transaction rolls back.
func askEngines(ctx context.Context, p *patient) (finding, error) {
	rows, err := p.QueryContext(ctx, `select t.table_name, coalesce(t.engine, 'unknown') from information_schema.tables t
 left join information_schema.engines e on e.engine = t.engine
 where t.table_schema = database() and t.table_type in ('BASE TABLE', 'SYSTEM VERSIONED') and coalesce(e.transactions, 'NO') <> 'YES' order by t.table_name`)
	if err != nil {
		return finding{}, err
	}
	defer rows.Close()
	var tables []table
	for rows.Next() {
		var t table
		if err := rows.Scan(&t.name, &t.engine); err != nil {
			return finding{}, err
		}
		tables = append(tables, t)
	}
	return judgeEngines(tables), errors.Join(rows.Err(), rows.Close())
}

// table is one that is not transactional.
type table struct{ name, engine string }

func judgeEngines(tables []table) finding {
	const most = 5 // of the names that are told
	var names []string
	bad := warn
	for i, t := range tables {
		if strings.HasPrefix(t.name, "once_") {
			bad = fail
		}
		if i < most {
			names = append(names, t.name+" ("+t.engine+")")
		}
	}
	switch n := len(tables); {
	case n == 0:
		return fine("every table is rolled back with its transaction")
	case n > most:
		names = append(names, fmt.Sprintf("and %d more", n-most))
	}
	return bad.because("not transactional: "+strings.Join(names, ", ")+": what an operation writes there stands if it fails, and is written again by the retry",
		"alter table NAME engine = InnoDB, for each table that operations write to")
}

func judgeFlushLog(value string) finding {
	if value != "1" && value != "3" { // 3 is MariaDB's, and flushes more often
		return fail.because(fmt.Sprintf("innodb_flush_log_at_trx_commit is %s: a crash takes the last second of commits that were acknowledged", value), "set global innodb_flush_log_at_trx_commit = 1")
	}
	return fine("each commit is flushed")
}

func judgeDoublewrite(value string) finding {
	if value == "OFF" || value == "0" {
		return fail.because("innodb_doublewrite is off: after a crash of the machine a page may be half written", "innodb_doublewrite = ON")
	}
	return fine("on")
}

// askSyncBinlog asks only where there is a binary log.
func askSyncBinlog(ctx context.Context, p *patient) (finding, error) {
	log, err := askVariable("log_bin", "", func(value string) finding { return finding{Says: value} })(ctx, p)
	if err != nil || log.Says == "OFF" || log.Says == "0" {
		return finding{}, err
	}
	return askVariable("sync_binlog", "1", judgeSyncBinlog)(ctx, p)
}

func judgeIdleTransaction(value string) finding {
	if value == "0" {
		return warn.because("idle_transaction_timeout is 0: a process that is stopped in a transaction keeps its key and its locks until its connection breaks",
			"once.Config.Timeouts.Idle, or set global idle_transaction_timeout = 60")
	}
	return fine("a transaction that does nothing for %s s is ended", value)
}

// maxLockWait is a time, in seconds, after which most clients have given up.
const maxLockWait = 30

func judgeLockWait(value string) finding {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > maxLockWait {
		return warn.because(fmt.Sprintf("innodb_lock_wait_timeout is %d: a handler waits for so many seconds for a row, longer than its client", n),
			"once.Config.Timeouts.Lock, or set global innodb_lock_wait_timeout = 5")
	}
	return fine("a lock is waited for at most %s s", value)
}

func judgeSyncBinlog(value string) finding {
	if value != "1" {
		return warn.because(fmt.Sprintf("sync_binlog is %s: after a crash of the machine replicas may lack, or have more than, what was acknowledged", value), "set global sync_binlog = 1")
	}
	return fine("each commit is in the binary log")
}

func judgeSemiSync(value string) finding {
	if value != "ON" && value != "1" {
		return finding{}
	}
	return warn.because("commits wait for a replica, until its timeout ends and they do not; replays never wait: a failover may take what was acknowledged",
		"a timeout that is never reached, if no commit may be lost")
}

// askReplicas asks who follows, which anybody may know of a MariaDB. MySQL tells only those
// who wait for semi-synchronous ones.
func askReplicas(ctx context.Context, p *patient) (finding, error) {
	rows, err := p.QueryContext(ctx, `show global status where variable_name in ('Slaves_connected', 'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients')`)
	if err != nil {
		return finding{}, err
	}
	defer rows.Close()
	r := replication{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return finding{}, err
		}
		if name == "Slaves_connected" {
			r.known, r.replicas = true, n
		} else {
			r.waited = n
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return finding{}, err
	}
	for _, v := range []struct {
		name string
		to   *string
	}{{"rpl_semi_sync_master_enabled", &r.enabled}, {"rpl_semi_sync_source_enabled", &r.enabled}, {"rpl_semi_sync_master_wait_point", &r.point}, {"rpl_semi_sync_source_wait_point", &r.point}} {
		if err := none(p.QueryRowContext(ctx, "show global variables like '"+v.name+"'").Scan(new(string), v.to)); err != nil {
			return finding{}, err
		}
	}
	return r.judge(), nil
}

// replication is what a server says of those who follow it.
type replication struct {
	known            bool
	replicas, waited int // connected, and of these: that acknowledge semi-synchronously
	enabled, point   string
}

func (r replication) judge() finding {
	const try = "if one may take over: rpl_semi_sync_master_enabled = ON and rpl_semi_sync_master_wait_point = AFTER_SYNC, and rpl_semi_sync_slave_enabled = ON on the replica"
	switch on := r.enabled == "ON" || r.enabled == "1"; {
	case on && r.waited == 0:
		return warn.because("semi-synchronous replication is on, but no replica acknowledges: each commit waits until its timeout, or no longer waits", "to start the replica, with rpl_semi_sync_slave_enabled = ON")
	case on && r.point != "AFTER_SYNC":
		return warn.because("replays are local: with "+r.point+" one may tell of a commit that no replica has, and that the next failover takes away", "set global rpl_semi_sync_master_wait_point = AFTER_SYNC")
	case on:
		return fine("a commit is visible only after a replica has it")
	case r.replicas > 0:
		return warn.because(fmt.Sprintf("replicas exist (%d) and nothing waits for them, commits or replays: what they have not got is lost in a failover, and retries of it execute again", r.replicas), try)
	case !r.known:
		return finding{}
	}
	return fine("there are none")
}
