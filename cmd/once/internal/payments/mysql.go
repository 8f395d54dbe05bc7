package payments

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/cmd/once/internal/mysqlurl"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

func openMySQL(ctx context.Context, dsn string, events bool) (*DB, error) {
	cfg, err := mysqlurl.Parse(dsn)
	if err != nil {
		return nil, err
	}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	pool := sqlstore.OpenDB(sqlplane.MySQL, c)
	db, err := openSQL(ctx, pool, func(tx *sql.Tx) queries { return mysqlTx{sqlTx{tx}} }, events)
	if err != nil {
		return nil, err
	}
	db.ddl = mysqlDDL
	db.exists = isThere
	const name = "concat('payments migration ', left(sha2(database(), 256), 32))" // of a lock: at most 64 characters
	db.lock = "do get_lock(" + name + ", 60)"
	db.unlock = "do release_lock(" + name + ")"
	return db, nil
}

// mysqlTx translates the SQL of [queries] for MySQL and MariaDB.
type mysqlTx struct{ sqlTx }

func (t mysqlTx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	text, args = mysqlText(text, args)
	return t.sqlTx.exec(ctx, text, args...)
}

func (t mysqlTx) each(ctx context.Context, row func(func(...any) error) error, text string, args ...any) error {
	text, args = mysqlText(text, args)
	return t.sqlTx.each(ctx, row, text, args...)
}

var parameter = regexp.MustCompile(`\$\d+`)

// mysqlText replaces each $1, $2, ... by a question mark, and returns the arguments in the order of the question marks.
func mysqlText(text string, args []any) (string, []any) {
	var ordered []any
	text = parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, _ := strconv.Atoi(p[1:]) // it cannot fail: the expression matches digits only
		ordered = append(ordered, args[n-1])
		return "?"
	})
	return strings.Replace(text, "on conflict do nothing", "on duplicate key update tenant = values(tenant)", 1), ordered
}

// mysqlDDL converts a migration to statements for MySQL. Texts become binary columns, so that they are compared byte by byte.
func mysqlDDL(text string) []string {
	text = regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\btext\b`).ReplaceAllString(text, "varbinary(1020)")
	text = strings.ReplaceAll(text, "default '{}'", "default ('{}')") // a JSON default, for which MySQL has no literal
	var statements []string
	for statement := range strings.SplitSeq(text, ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// isThere reports whether a statement has failed because the table, the column or the index that it creates already exists. This happens when
// an interrupted migration is repeated.
func isThere(err error) bool {
	e := (*mysql.MySQLError)(nil)
	return errors.As(err, &e) && (e.Number == 1050 || e.Number == 1060 || e.Number == 1061)
}
