package doctor

import (
	"context"
	"database/sql"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/destination"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// Database is a database to examine, through one plain connection.
type Database struct {
	*sql.DB
	cli.Source

	asService bool // its connections have the settings of the service's connections
	host      string
}

// Open opens an existing database for its examination.
func Open(ctx context.Context, dsn string) (*Database, error) {
	if strings.HasPrefix(dsn, "file:") { // a data source name has all settings of the service
		src, err := cli.ParseSource(dsn)
		if err != nil {
			return nil, err
		}
		src.DSN = dsn
		if _, err := os.Stat(src.Path); err != nil { // opening a missing file would create it
			return nil, src.Failed("open", err)
		}
		return open(ctx, src, true)
	}
	db, err := cli.OpenDatabase(ctx, dsn, false) // its error messages are better
	if err != nil {
		return nil, err
	}
	_ = db.Close()
	return open(ctx, db.Source, db.Dialect != sqlplane.SQLite)
}

func open(ctx context.Context, src cli.Source, asService bool) (*Database, error) {
	db, err := src.Plain()
	if err != nil {
		return nil, src.Failed("open", err)
	}
	db.SetMaxOpenConns(1)
	d := &Database{DB: db, Source: src, asService: asService}
	if err := cli.Reached(ctx, src, db); err != nil {
		_ = db.Close()
		return nil, err
	}
	if cfg, err := src.PGX(); err == nil && cfg != nil {
		d.host = cfg.Host
	}
	if src.Dialect == sqlplane.MySQL {
		if cfg, err := mysql.ParseDSN(src.DSN); err == nil {
			d.host, _, _ = strings.Cut(cfg.Addr, ":")
		}
	}
	return d, nil
}

// Config returns the config for package operate/doctor. to is the URL of the broker, or "".
func (d *Database) Config(to string) doctor.Config {
	c := doctor.Config{
		DB: d.DB, Dialect: d.Dialect, Name: d.Name, URL: d.Paste, Path: d.Path, Host: d.host, AsService: d.asService,
		Status: d.status, Operator: d.operator, StoreError: d.storeError, Rehearse: d.rehearse,
	}
	if d.Dialect == sqlplane.PostgreSQL {
		c.BackendPID, c.BouncerSettings = d.backendPID, d.bouncerSettings
	}
	if to != "" {
		c.Broker = func() (*doctor.Broker, error) {
			opened, err := destination.Open(to)
			if err != nil {
				return nil, err
			}
			return &opened.Broker, nil
		}
	}
	return c
}

// guarded opens the database for package sqlstore. On PostgreSQL it prepares no statements, as in once migrate.
func (d *Database) guarded(dsn string) (*sql.DB, error) {
	cfg, err := d.PGX()
	if err != nil {
		return nil, err
	}
	if cfg != nil {
		return sqlstore.OpenDB(sqlplane.PostgreSQL, stdlib.GetConnector(*cfg)), nil
	}
	return sqlstore.Open(d.Source.Driver, dsn)
}

func (d *Database) status(ctx context.Context) ([]migration.Status, error) {
	db, err := d.guarded(d.DSN)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return sqlstore.Status(ctx, db, migrate.Capabilities...)
}

// operator opens a file of SQLite without the settings of the service, which sqlstore may not accept.
func (d *Database) operator(ctx context.Context) (*operate.Operator, func(), error) {
	src := d.Source
	if src.Path != "" {
		var err error
		if src, err = cli.ParseSource("sqlite:" + src.Path); err != nil {
			return nil, nil, err
		}
	}
	db, err := d.guarded(src.DSN)
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	return operate.New(s, operate.Config{}), func() { _ = db.Close() }, nil
}

func (d *Database) storeError(ctx context.Context) error {
	db, err := d.guarded(d.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = sqlstore.New(ctx, db, sqlstore.Config{})
	return err
}

func (d *Database) rehearse(ctx context.Context, readOnly string) error {
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		return err
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params[readOnly] = "1"
	db, err := d.guarded(cfg.FormatDSN())
	if err != nil {
		return err
	}
	defer db.Close()
	return sqlstore.MigrateOnly(ctx, db, migrate.Capabilities...)
}

func (d *Database) backendPID(ctx context.Context) (pid uint32, err error) {
	conn, err := d.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	err = conn.Raw(func(dc any) error {
		pid = dc.(*stdlib.Conn).Conn().PgConn().PID() //nolint:forcetypeassert // opened by Plain
		return nil
	})
	return pid, err
}

func (d *Database) bouncerSettings(ctx context.Context) (map[string]string, error) {
	cfg, err := d.PGX()
	if err != nil {
		return nil, err
	}
	cfg.Database, cfg.DefaultQueryExecMode = "pgbouncer", pgx.QueryExecModeSimpleProtocol
	cfg.RuntimeParams = nil
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	rows, err := db.QueryContext(ctx, "show config")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns() // key and value come first; further columns depend on the version
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for rows.Next() {
		var key, value sql.NullString
		into := []any{&key, &value}
		for len(into) < len(columns) {
			into = append(into, new(sql.NullString))
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		settings[key.String] = value.String
	}
	return settings, rows.Err()
}
