package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncelib/once/internal/base/words"
)

// mysqlChecks are the checks of MySQL and MariaDB.
var mysqlChecks = []check{
	{name: "version", ask: askMySQLVersion},
	{name: "claims", ask: askLocks},
	{name: "store", ask: askStore},
	{name: "migrations", ask: askMigrations},
	{name: "privileges", ask: askPrivileges},
	{name: "encryption", ask: askEncryption},
	{name: "read_only", ask: askReadOnly},
	{name: "engines", ask: askEngines},
	{name: "redo_log", ask: askRedoLog},
	{name: "flush_log", ask: askVariable("innodb_flush_log_at_trx_commit", "1", judgeFlushLog)},
	{name: "doublewrite", ask: askVariable("innodb_doublewrite", "ON", judgeDoublewrite)},
	{name: "sync_binlog", ask: askSyncBinlog},
	{name: "binlog_format", ask: askBinlogFormat},
	{name: "idle_timeout", ask: askIdleTransaction},
	{name: "idle_connections", ask: askIdleMySQL},
	{name: "lock_timeout", ask: askVariable("innodb_lock_wait_timeout", "", judgeLockWait)},
	{name: "packets", ask: askPackets},
	{name: "packet", ask: askVariable("max_allowed_packet", "", judgePacket)},
	{name: "replicas", ask: askReplicas},
	{name: "group", ask: askGroup},
}

// setting returns the value of the one variable that a statement of the form "show ... like" finds. It returns "" if the variable does not exist,
// because it belongs to a plugin or to another version.
func (p *examination) setting(ctx context.Context, show string) (value string, err error) {
	err = none(p.DB.QueryRowContext(ctx, show).Scan(new(string), &value))
	return value, err
}

// askVariable returns a check of one variable in a session of the service. The parameter otherwise is the value of a variable that does not exist. If
// otherwise is empty, the check of such a variable does not apply.
func askVariable(name, otherwise string, judge func(value string) Finding) func(context.Context, *examination) (Finding, error) {
	return func(ctx context.Context, p *examination) (Finding, error) {
		value, err := p.setting(ctx, "show variables like '"+name+"'")
		if value = words.Either(value != "", value, otherwise); err != nil || value == "" {
			return Finding{}, err
		}
		return judge(value), nil
	}
}

// askEngines finds tables of the database whose engine cannot roll back.
func askEngines(ctx context.Context, p *examination) (Finding, error) {
	rows, err := p.DB.QueryContext(ctx, `select t.table_name, coalesce(t.engine, 'unknown') from information_schema.tables t
 left join information_schema.engines e on e.engine = t.engine
 where t.table_schema = database() and t.table_type in ('BASE TABLE', 'SYSTEM VERSIONED') and coalesce(e.transactions, 'NO') <> 'YES' order by t.table_name`)
	if err != nil {
		return Finding{}, err
	}
	defer rows.Close()
	var tables []table
	for rows.Next() {
		var t table
		if err := rows.Scan(&t.name, &t.engine); err != nil {
			return Finding{}, err
		}
		tables = append(tables, t)
	}
	return judgeEngines(tables), errors.Join(rows.Err(), rows.Close())
}

// table is a table whose engine is not transactional.
type table struct{ name, engine string }

func judgeEngines(tables []table) Finding {
	const most = 5 // names in the finding
	var names []string
	bad := warn
	for i, t := range tables {
		// A table of the library must be transactional. Another table may be used outside of operations.
		if strings.HasPrefix(t.name, "once_") {
			bad = fail
		}
		if i < most {
			names = append(names, t.name+" ("+t.engine+")")
		}
	}
	switch n := len(tables); {
	case n == 0:
		return fine("the engine of each table supports transactions")
	case n > most:
		names = append(names, fmt.Sprintf("and %d more", n-most))
	}
	return bad("the engine of these tables does not support transactions: "+strings.Join(names, ", ")+". If an operation fails, its writes to these tables stay. Then the outcome of the operation is unknown, or, if the connection was lost, the retry writes to them again",
		"run alter table NAME engine = InnoDB for each table to which operations write")
}

func judgeFlushLog(value string) Finding {
	if value != "1" && value != "3" { // the value 3 exists only in MariaDB, and flushes more often than 1
		return fail(fmt.Sprintf("innodb_flush_log_at_trx_commit is %s: a crash loses the acknowledged commits of the last second", value), "set global innodb_flush_log_at_trx_commit = 1")
	}
	return fine("the server flushes the log at each commit")
}

func judgeDoublewrite(value string) Finding {
	switch value {
	case "OFF", "0", "DETECT_ONLY":
		return fail("innodb_doublewrite is "+value+": after a crash of the machine a page may be half written, and the server cannot repair the page", "set innodb_doublewrite = ON in the configuration file of the server")
	}
	return fine("on")
}

// askRedoLog checks that MySQL writes its redo log. MySQL can run without this log.
func askRedoLog(ctx context.Context, p *examination) (Finding, error) {
	value, err := p.setting(ctx, "show global status like 'Innodb_redo_log_enabled'")
	if value == "OFF" {
		return fail("the redo log is disabled: a crash of the server destroys the database", "alter instance enable innodb redo_log"), err
	}
	return Finding{}, err
}

// askSyncBinlog checks how the binary log is flushed. It does not apply without a binary log.
func askSyncBinlog(ctx context.Context, p *examination) (Finding, error) {
	log, err := p.setting(ctx, "show variables like 'log_bin'")
	if err != nil || log != "ON" {
		return Finding{}, err
	}
	return askVariable("sync_binlog", "1", judgeSyncBinlog)(ctx, p)
}

// askBinlogFormat checks the format of the binary log. It does not apply without a binary log.
func askBinlogFormat(ctx context.Context, p *examination) (Finding, error) {
	log, err := p.setting(ctx, "show variables like 'log_bin'")
	if err != nil || log != "ON" {
		return Finding{}, err
	}
	return askVariable("binlog_format", "ROW", judgeBinlogFormat)(ctx, p)
}

func judgeBinlogFormat(value string) Finding {
	if value == "STATEMENT" {
		return fail("binlog_format is STATEMENT: InnoDB refuses each write at READ COMMITTED with error 1665", "set global binlog_format = ROW")
	}
	return fine("%s", value)
}

func judgeSyncBinlog(value string) Finding {
	if value != "1" {
		return warn(fmt.Sprintf("sync_binlog is %s: a crash of the machine loses the last acknowledged commits. Each lost commit has a key and its effect, so a retry executes again. Replicas may still have the lost commits", value), "set global sync_binlog = 1")
	}
	return fine("the server flushes the binary log at each commit")
}

// askIdleTransaction checks how long a transaction may be idle. MySQL limits only how long a connection may be idle.
func askIdleTransaction(ctx context.Context, p *examination) (Finding, error) {
	value, err := p.setting(ctx, "show variables like 'idle_transaction_timeout'")
	if value == "" && err == nil {
		return askVariable("wait_timeout", "", judgeIdleConnection)(ctx, p)
	}
	return judgeIdleTransaction(value), err
}

func judgeIdleTransaction(value string) Finding {
	if value == "0" {
		return warn("idle_transaction_timeout is 0: if a process stops inside a transaction, the transaction holds its key and its locks until the connection breaks",
			"set once.Config.Timeouts.Idle in the service, or set global idle_transaction_timeout = 60")
	}
	return fine("the server ends a transaction that is idle for %s s", value)
}

// maxIdle is a time in seconds. After this time people notice that an operation is stuck.
const maxIdle = 300

func judgeIdleConnection(value string) Finding {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > maxIdle {
		return warn(fmt.Sprintf("wait_timeout is %d: if a process stops inside a transaction, the transaction holds its key and its locks for so many seconds", n),
			"set once.Config.Timeouts.Idle in the service, or use wait_timeout=60 in its data source name together with a shorter SetConnMaxIdleTime")
	}
	return fine("the server closes a connection that is idle for %s s, and rolls back the transaction of the connection", value)
}

// maxLockWait is a time in seconds. After this time most clients have given up.
const maxLockWait = 30

func judgeLockWait(value string) Finding {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > maxLockWait {
		return warn(fmt.Sprintf("innodb_lock_wait_timeout is %d: a handler may wait for a locked row for so many seconds, longer than its client waits", n),
			"set once.Config.Timeouts.Lock in the service, or set global innodb_lock_wait_timeout = 5")
	}
	return fine("a statement waits at most %s s for a lock", value)
}

// minPacket is the default of old servers, and large enough for most answers.
const minPacket = 4 << 20

// judgePacket judges max_allowed_packet. Values are sent in hexadecimal, so a value needs twice its length.
func judgePacket(value string) Finding {
	n, err := strconv.ParseInt(value, 10, 64)
	if err == nil && n < minPacket {
		return warn(fmt.Sprintf("max_allowed_packet is %d bytes: the library cannot store a result that is larger than half of this limit, and rolls the operation back", n), "set global max_allowed_packet = 67108864")
	}
	return fine("a result may have up to %d bytes", n/2)
}
