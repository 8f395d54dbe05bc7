package main

import (
	"context"
	"errors"
	"fmt"
)

// mysqlChecks are for MySQL and MariaDB.
var mysqlChecks = []check{
	{"migrations", askMigrations},
	{"read_only", askVariable("read_only", "", judgeReadOnly)},
	{"flush_log", askVariable("innodb_flush_log_at_trx_commit", "1", judgeFlushLog)},
	{"doublewrite", askVariable("innodb_doublewrite", "ON", judgeDoublewrite)},
	{"sync_binlog", askVariable("sync_binlog", "1", judgeSyncBinlog)},
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

func judgeReadOnly(value string) finding {
	if value != "OFF" && value != "0" {
		return fail.because("read_only is on: this is a replica, which takes no writes", "the primary")
	}
	return fine("it takes writes")
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
		return warn.because("commits are to wait for a replica, and none is there that tells what it has: each waits in vain, or none waits any more", "to start the replica, with rpl_semi_sync_slave_enabled = ON")
	case on && r.point != "AFTER_SYNC":
		return warn.because("replays are local: with "+r.point+" one may tell of a commit that no replica has, and that the next failover takes away", "set global rpl_semi_sync_master_wait_point = AFTER_SYNC")
	case on:
		return fine("nobody sees a commit before a replica has it")
	case r.replicas > 0:
		return warn.because(fmt.Sprintf("replicas exist (%d) and nothing waits for them, commits or replays: what they have not got is lost in a failover, and retries of it execute again", r.replicas), try)
	case !r.known:
		return finding{}
	}
	return fine("there are none")
}
