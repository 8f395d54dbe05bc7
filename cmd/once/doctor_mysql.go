package main

import (
	"context"
	"fmt"
)

// mysqlChecks are for MySQL and MariaDB. No test has run them on a server yet, because
// this program does not open one.
var mysqlChecks = []check{
	{"migrations", askMigrations},
	{"read_only", askVariable("read_only", "", judgeReadOnly)},
	{"flush_log", askVariable("innodb_flush_log_at_trx_commit", "1", judgeFlushLog)},
	{"doublewrite", askVariable("innodb_doublewrite", "ON", judgeDoublewrite)},
	{"sync_binlog", askVariable("sync_binlog", "1", judgeSyncBinlog)},
	{"semi_sync", askVariable("rpl_semi_sync_master_enabled", "", judgeSemiSync)},
	{"semi_sync", askVariable("rpl_semi_sync_source_enabled", "", judgeSemiSync)}, // since MySQL 8.0.26
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
