package payments

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

func openMariaDB(ctx context.Context, dsn string) (*DB, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("this is no URL")
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		cfg.Addr = u.Hostname() + ":3306"
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.InterpolateParams = true
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	pool := sqlstore.OpenDB(store.MySQL, c)
	db, err := openSQL(ctx, pool, func(tx *sql.Tx) queries { return mariadbTx{sqlTx{tx}} })
	if err != nil {
		return nil, err
	}
	db.ddl = mariadbDDL
	db.lock = "do get_lock(concat('payments migration ', md5(database())), 60)"
	db.unlock = "do release_lock(concat('payments migration ', md5(database())))"
	return db, nil
}

// mariadbTx translates what the other databases agree on.
type mariadbTx struct{ sqlTx }

func (t mariadbTx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	text, args = mariadbText(text, args)
	return t.sqlTx.exec(ctx, text, args...)
}

func (t mariadbTx) each(ctx context.Context, row func(func(...any) error) error, text string, args ...any) error {
	text, args = mariadbText(text, args)
	return t.sqlTx.each(ctx, row, text, args...)
}

var parameter = regexp.MustCompile(`\$\d+`)

// mariadbText puts the parameters into the order in which they are mentioned.
func mariadbText(text string, args []any) (string, []any) {
	var ordered []any
	text = parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, _ := strconv.Atoi(p[1:]) // the expression sees to it
		ordered = append(ordered, args[n-1])
		return "?"
	})
	return strings.Replace(text, "on conflict do nothing", "on duplicate key update tenant = values(tenant)", 1), ordered
}

// mariadbDDL has texts compared by their bytes, and can be repeated after it was cut.
func mariadbDDL(text string) []string {
	text = regexp.MustCompile(`--.*`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\btext\b`).ReplaceAllString(text, "varbinary(1020)")
	text = strings.NewReplacer("create table ", "create table if not exists ", "create index ", "create index if not exists ",
		"add column ", "add column if not exists ").Replace(text)
	var statements []string
	for statement := range strings.SplitSeq(text, ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}
