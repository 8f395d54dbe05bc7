package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

// isDenied reports whether an error says that the user lacks a privilege.
func isDenied(err error) bool {
	code, _ := sqlguard.MySQLCode(err)
	return code == 1044 || code == 1142 || code == 1143 || code == 1227
}

// count returns how many rows a query returns.
func (p *examination) count(ctx context.Context, query string) (n int, err error) {
	rows, err := p.DB.QueryContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, errors.Join(rows.Err(), rows.Close())
}

// askMySQLVersion is the first check, because other checks depend on its result.
func askMySQLVersion(ctx context.Context, p *examination) (Finding, error) {
	var version, comment string
	if err := p.DB.QueryRowContext(ctx, "select version(), @@version_comment").Scan(&version, &comment); err != nil {
		return Finding{}, err
	}
	p.mariadb = strings.Contains(version, "MariaDB")
	return judgeMySQLVersion(version, comment), nil
}

// Versions before oldestMySQL and oldestMariaDB do not support SKIP LOCKED. MySQL 8.0 is no longer maintained.
const (
	oldestMySQL, maintainedMySQL, testedMySQL = 800, 804, "9.7" // the number is 100 * major + minor
	oldestMariaDB, testedMariaDB              = 1006, "10.11"
)

func judgeMySQLVersion(version, comment string) Finding {
	name, oldest, maintained, tested := "MySQL", oldestMySQL, maintainedMySQL, testedMySQL
	if strings.Contains(version, "MariaDB") {
		name, oldest, maintained, tested = "MariaDB", oldestMariaDB, oldestMariaDB, testedMariaDB
	}
	number, _, _ := strings.Cut(version, "-")
	// These servers report a version number of MySQL.
	for _, other := range []string{"TiDB", "Vitess", "OceanBase", "SingleStore"} {
		if strings.Contains(version+comment, other) {
			return warn(other+" speaks the protocol of MySQL, but the library \"once\" is not tested with "+other+": two calls may both execute one operation", "use MySQL, MariaDB or PostgreSQL")
		}
	}
	first, rest, _ := strings.Cut(number, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil {
		return warn(fmt.Sprintf("the server has the version %q, which this release of the command once does not know", version), "use MySQL "+tested)
	}
	switch v := 100*major + minor; {
	case v < oldest:
		return fail(fmt.Sprintf("%s %s has no SKIP LOCKED, which operations and sweepers need", name, number), "use "+name+" "+tested)
	case v < maintained:
		return warn(fmt.Sprintf("%s %s is no longer maintained, and the library \"once\" is not tested with this version", name, number), "use "+name+" "+tested)
	}
	return fine("%s %s; the library \"once\" is tested with %s", name, number, tested)
}

// askLocks checks that the server holds named locks for a session, because claims are such locks.
func askLocks(ctx context.Context, p *examination) (Finding, error) {
	// The name is unique, so no other session can hold the lock.
	const name = "concat('once doctor ', connection_id())"
	var kept sql.NullBool
	err := p.DB.QueryRowContext(ctx, "select get_lock("+name+", 0) = 1 and is_used_lock("+name+") = connection_id() and release_lock("+name+") = 1").Scan(&kept)
	const try = "connect to MySQL or MariaDB itself, without a proxy that distributes a session over several connections"
	switch {
	// A check without an answer in time proves nothing.
	case ctx.Err() != nil:
	case err != nil:
		return fail("this server does not grant named locks (GET_LOCK), so the library cannot claim operations: "+err.Error(), try), nil //nolint:nilerr // the error is the finding
	case !kept.Bool:
		return warn("this server does not hold named locks (GET_LOCK): duplicates of an operation may run at the same time, and only one of the duplicates can commit", try), nil
	}
	return fine("the server holds named locks (GET_LOCK)"), err
}

// askPackets checks whether a session of the service accepts several statements in one packet, which saves round trips.
func askPackets(ctx context.Context, p *examination) (Finding, error) {
	if !p.AsService {
		return Finding{}, nil
	}
	_, err := p.DB.ExecContext(ctx, "do 0; do 0")
	if code, _ := sqlguard.MySQLCode(err); code == syntaxError {
		return warn("a request to the server has one statement only. Compared with a transaction without the library, an operation needs three more round trips, a first attempt four more, and a batch five more and one for each statement",
			"open the database with sqlstore.Open, or use multiStatements=true and interpolateParams=true in the data source name. A handler still sends one statement at a time"), nil
	}
	if err != nil {
		return Finding{}, err
	}
	_, err = p.DB.ExecContext(ctx, "do 0; do ?", 1) // an argument makes the driver prepare the statements, and the server cannot prepare two at once
	if code, _ := sqlguard.MySQLCode(err); code == syntaxError {
		return warn("a request to the server may have several statements, but no arguments. A batch with arguments needs more than one round trip. A handler's statement with arguments needs two round trips, or three the first time",
			"open the database with sqlstore.Open and without multiStatements in the data source name, or add interpolateParams=true"), nil
	}
	return fine("a request to the server may have several statements"), err
}

const syntaxError = 1064

// askStore lets the store check the sessions of the service: their mode, isolation level and autocommit.
func askStore(ctx context.Context, p *examination) (Finding, error) {
	if p.StoreError == nil {
		return Finding{}, nil
	}
	if err := p.StoreError(ctx); err != nil && !errors.Is(err, store.ErrNotMigrated) && !isDenied(err) { // the checks of migrations and privileges report these errors
		what, try := words.Advice(err.Error())
		return fail("sqlstore would refuse to start: "+what, words.Either(try != "", try, "use the URL of the service")), nil
	}
	return fine("sqlstore accepts the settings of the sessions"), nil
}

// rehearse returns the reason why "once migrate up" would fail, or nil if it finds no reason. First the server checks each statement without running
// it. Afterwards the migrations run in a session that cannot write.
func (p *examination) rehearse(ctx context.Context, missing []migration.Migration) error {
	for _, m := range missing {
		for statement := range strings.SplitSeq(strings.TrimSpace(m.SQL), ";\n") {
			if err := p.prepare(ctx, strings.TrimSuffix(statement, ";")); err != nil && !sqlguard.IsMissing(err) { // a statement may need the table of an earlier one, which does not exist yet
				return err
			}
		}
	}
	if p.Rehearse == nil {
		return nil
	}
	err := p.Rehearse(ctx, p.readOnlyVariable())
	if code, _ := sqlguard.MySQLCode(err); code == 1792 || ctx.Err() != nil { // 1792: the migration has reached a write, which this session refuses; or another process migrates now
		return nil
	}
	return err
}

// prepare lets the server check a statement without running it.
func (p *examination) prepare(ctx context.Context, statement string) error {
	stmt, err := p.DB.PrepareContext(ctx, statement)
	if err == nil {
		defer stmt.Close()
	}
	return err
}

// askPrivileges lets the server check the statements of operations without running them.
func askPrivileges(ctx context.Context, p *examination) (Finding, error) {
	var denied []string
	for _, statement := range []string{
		"select 1 from once_operation where scope = '' and `key` = ''",
		"insert into once_operation (scope, `key`, since) values ('', '', 0)",
		"update once_operation set state = 3 where scope = '' and `key` = ''",
		"delete from once_operation where scope = '' and `key` = ''",
	} {
		_, err := p.count(ctx, "explain "+statement)
		switch {
		case isDenied(err):
			word, _, _ := strings.Cut(statement, " ")
			denied = append(denied, word)
		case err != nil:
			return Finding{}, err
		}
	}
	if len(denied) > 0 {
		words := strings.Join(denied, ", ")
		var database sql.NullString
		if err := p.DB.QueryRowContext(ctx, "select database()").Scan(&database); err != nil {
			return Finding{}, err
		}
		return fail("this user has no privilege to "+words+" in once_operation: operations fail", "grant "+words+" on `"+database.String+"`.* to the user of this URL"), nil
	}
	return fine("this user may read and write once_operation"), nil
}

// askEncryption checks whether the connection to the server is encrypted.
func askEncryption(ctx context.Context, p *examination) (Finding, error) {
	cipher, err := p.setting(ctx, "show session status like 'Ssl_cipher'")
	if err != nil {
		return Finding{}, err
	}
	host, err := p.text(ctx, "select substring_index(user(), '@', -1)")
	return judgeEncryption(cipher, host), err
}

// judgeEncryption judges the cipher of a connection. The parameter host is the client's host as the server sees it.
func judgeEncryption(cipher, host string) Finding {
	switch {
	case cipher != "":
		return fine("TLS, %s", cipher)
	case host == "localhost" || host == "127.0.0.1" || host == "::1":
		return fine("the connection is not encrypted, but does not leave this machine")
	}
	return warn("the connection is not encrypted: an attacker on the network can read requests and results, and a false server would get the password", "use tls=true in the URL or in the data source name of the service")
}
