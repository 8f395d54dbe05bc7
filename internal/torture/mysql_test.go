package torture

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

func openMariaDB(ctx context.Context, su setup) (system, error) {
	cfg, err := mysql.ParseDSN(su.dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true // a handler's statement is one round trip
	if su.dial != nil {
		cfg.DialFunc = su.dial
	}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return openSQL(ctx, sqlstore.OpenDB(store.MySQL, c), su, mysqlDialect)
}

// mysqlSchema is schema without indexes on text.
const mysqlSchema = `
create table charge (` + "`key`" + ` varchar(255) not null, attempt varchar(255) not null, index (` + "`key`" + `)) collate utf8mb4_bin;
create table entry (` + "`key`" + ` varchar(255) not null, attempt varchar(255) not null, index (` + "`key`" + `)) collate utf8mb4_bin;
create table ledger (` + "`key`" + ` varchar(255) primary key, attempts text not null) collate utf8mb4_bin;
create table receipt (` + "`key`" + ` varchar(255) not null, paper longtext not null) collate utf8mb4_bin`

// mysqlDialect quotes a reserved word, and knows parameters only in their order.
func mysqlDialect(query string) string {
	query = strings.Replace(query, appendLedger, mysqlAppendLedger, 1)
	query = strings.Replace(query, setSetting, mysqlSetSetting, 1)
	return mysqlWords.ReplaceAllStringFunc(query, func(word string) string {
		switch {
		case word[0] == '$':
			return "?"
		case word == "key":
			return "`key`"
		}
		return word
	})
}

const mysqlAppendLedger = `insert into ledger (key, attempts) values ($1, $2)
 on duplicate key update attempts = concat(attempts, ',', values(attempts))`

const mysqlSetSetting = "replace into setting (key, value) values ($1, $2)"

var mysqlWords = regexp.MustCompile(`\$\d+|(primary|duplicate) key|\bkey\b`)

// openAsMySQL opens a MariaDB that refuses what MySQL refuses. Its sessions wait for a
// lock as long as it takes to be seen, and not for most of a minute.
func openAsMySQL(dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Params = map[string]string{"innodb_lock_wait_timeout": "3"}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sqlstore.OpenDB(store.MySQL, asMySQL{c}), nil
}

type asMySQL struct{ driver.Connector }

func (c asMySQL) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return asMySQLConn{conn.(mysqlConn)}, nil
}

// mysqlConn is what a connection of the driver can do.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type asMySQLConn struct{ mysqlConn }

func (c asMySQLConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := unknownToMySQL(query); err != nil {
		return nil, err
	}
	return c.mysqlConn.ExecContext(ctx, query, args)
}

func (c asMySQLConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := unknownToMySQL(query); err != nil {
		return nil, err
	}
	return c.mysqlConn.QueryContext(ctx, query, args)
}

func unknownToMySQL(query string) error {
	for _, unknown := range []string{"begin not atomic", "set statement"} {
		if strings.HasPrefix(strings.ToLower(query), unknown) {
			return &mysql.MySQLError{Number: 1064, Message: "You have an error in your SQL syntax"}
		}
	}
	return nil
}
