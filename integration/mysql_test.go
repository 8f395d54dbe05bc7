package integration

import (
	"context"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// openMySQL opens a database by the driver that MariaDB and MySQL share.
func openMySQL(ctx context.Context, su setup) (system, error) {
	cfg, err := mysql.ParseDSN(su.dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams, cfg.MultiStatements = true, true // as sqlstore.Open sets them
	if su.dial != nil {
		cfg.DialFunc = su.dial
	}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return openSQL(ctx, sqlstore.OpenDB(sqlplane.MySQL, c), su, mysqlDialect)
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
