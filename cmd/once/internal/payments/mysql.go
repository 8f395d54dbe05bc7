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

// mysqlTx translates what the other databases agree on.
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

// mysqlText puts the parameters into the order in which they are mentioned.
func mysqlText(text string, args []any) (string, []any) {
	var ordered []any
	text = parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, _ := strconv.Atoi(p[1:]) // the expression sees to it
		ordered = append(ordered, args[n-1])
		return "?"
	})
	return strings.Replace(text, "on conflict do nothing", "on duplicate key update tenant = values(tenant)", 1), ordered
}

// mysqlDDL has texts compared by their bytes.
func mysqlDDL(text string) []string {
	text = regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\btext\b`).ReplaceAllString(text, "varbinary(1020)")
	text = strings.ReplaceAll(text, "default '{}'", "default ('{}')") // of JSON, which MySQL has no literal for
	var statements []string
	for statement := range strings.SplitSeq(text, ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// isThere reports whether a statement has failed because the table, the column or the index that it
// creates is there: a migration that was cut is repeated.
func isThere(err error) bool {
	e := (*mysql.MySQLError)(nil)
	return errors.As(err, &e) && (e.Number == 1050 || e.Number == 1060 || e.Number == 1061)
}
