// Package doctor examines a database: it finds settings that would break a promise of this library, and work that waits for an operator. The package
// writes nothing to the database.
//
//	report, err := doctor.Examine(ctx, doctor.Config{DB: db, Dialect: sqlplane.PostgreSQL, Name: "orders", Operator: operator})
//
// The command "once doctor" prints the report of Examine.
package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// Config says which database [Examine] examines. Set Name. Also set either DB and Dialect, or Store. If a function of Config is nil, Examine leaves
// out the checks that need this function.
type Config struct {
	// Store is a store without SQL, such as a redisstore or a dynamostore. The checks find out whether the store works, and which data the store may
	// lose.
	Store any

	DB      *sql.DB // the database; one connection is enough
	Dialect sqlplane.Dialect
	Name    string // the name for people, without a password
	URL     string // the argument of --db in the commands that findings suggest; default: "URL"
	Path    string // the path of the file, for SQLite
	Host    string // the host name of the database server in the service's configuration; Examine recognises some cloud services by their host names

	AsService bool // true if the connections of DB have the same settings as the connections of the service
	Synced    bool // true if the service sets once.Config.Synced to true

	// RestoredTo is the time of the backup from which the database was restored. If RestoredTo is set, Examine makes only the checks that find work
	// which an operator must examine after a restore.
	RestoredTo time.Time

	// Status returns all migrations of the library, and says for each migration whether it was applied to the database. The functions sqlstore.Status
	// and pgxstore.Status return such a list.
	Status func(ctx context.Context) ([]migration.Status, error)

	// Operator returns an [operate.Operator] of the database, and a function that Examine calls when it no longer needs the Operator.
	Operator func(ctx context.Context) (*operate.Operator, func(), error)

	// StoreError returns the error with which a store on this database refuses to start, or nil if the store can start. StoreError is called only for
	// MySQL and MariaDB, whose sessions must have certain settings.
	StoreError func(ctx context.Context) error

	// Rehearse runs the migrations in a session of MySQL or MariaDB, and sets the server variable that the parameter readOnly names to 1, so that
	// nothing is written. Rehearse returns the error with which the migrations fail.
	Rehearse func(ctx context.Context, readOnly string) error

	// BackendPID returns the process ID that PostgreSQL has sent to the driver when the driver connected.
	BackendPID func(ctx context.Context) (uint32, error)

	// BouncerSettings returns the result of "show config" on the console of PgBouncer.
	BouncerSettings func(ctx context.Context) (map[string]string, error)

	// Broker opens the message broker of the outbox and of the inboxes.
	Broker func() (*Broker, error)

	// Topics are topics of the outbox whose settings at the broker are checked, in addition to the topics that have had a message with an ordering key.
	// Set Topics to check a broker before the outbox has its first message.
	Topics []string
}

// Broker is the message broker to which an outbox publishes, or from which inboxes receive.
type Broker struct {
	Name string // the name for people, without a password

	// Check returns one sentence for each setting of the broker that can break a promise of the outbox for the given topics. If no setting of the broker
	// can break a promise, leave Check nil.
	Check func(ctx context.Context, topics []string) ([]string, error)

	// CheckConsumers returns one sentence for each setting of a consumer that can break a promise of the library. CheckConsumers checks only the
	// consumers that the broker knows and that the parameter names lists. The result found is the number of checked consumers. Leave CheckConsumers nil
	// if the broker stores no settings of consumers.
	CheckConsumers func(ctx context.Context, names []string) (found int, findings []string, err error)

	Close func()
}

// Verdict is the severity of a finding.
type Verdict string

const (
	VerdictOK   Verdict = "ok"
	VerdictWarn Verdict = "warn" // a failure may be noticed late, something costs more than necessary, or work waits for an operator
	VerdictFail Verdict = "fail" // a promise does not hold on this database, or the library cannot work with the database
)

// Finding is the result of one check.
type Finding struct {
	Check   string   `json:"check"` // the name of the check, for scripts; the name does not change between versions
	Verdict Verdict  `json:"level"`
	Says    string   `json:"says"`              // the result in a sentence
	Try     string   `json:"try,omitempty"`     // advice for the operator; "" if the verdict is VerdictOK
	First   []string `json:"first,omitempty"`   // IDs or names of the first rows that were found
	Runbook string   `json:"runbook,omitempty"` // the page of the runbook for the alert about the same problem; "" if no page exists
}

// Report has the findings of all checks.
type Report struct {
	Database string    `json:"database"`
	Dialect  string    `json:"dialect"`
	Healthy  bool      `json:"healthy"` // true if no finding has VerdictFail
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
	Findings []Finding `json:"findings"`
}

// checkTimeout limits the time of one check, because counting rows may take long.
const checkTimeout = 10 * time.Second

// Examine makes all checks of the database and returns their findings. If the database user lacks a privilege that a check needs, the finding of this
// check is a warning. Examine returns an error only if the database has stopped answering.
func Examine(ctx context.Context, c Config) (Report, error) {
	if c.DB == nil && c.Store == nil || c.Name == "" {
		return Report{}, errors.New("doctor: Config.Name is missing, or both Config.DB and Config.Store are missing. Try: set Config.Name, and set Config.DB or Config.Store")
	}
	if c.URL == "" {
		c.URL = "URL"
	}
	e := &examination{Config: c}
	r := Report{Database: c.Name, Dialect: string(c.Dialect), Findings: []Finding{}}
	made := storeChecks
	if c.DB != nil {
		made = slices.Concat(checks(c.Dialect), storeChecks)
	}
	if !c.RestoredTo.IsZero() {
		if made = restoreChecks; c.DB == nil {
			return Report{}, errRestoredWithoutSQL
		}
	}
	for _, check := range made {
		f, ok := e.make(ctx, check)
		if !ok {
			continue
		}
		switch f.Verdict {
		case VerdictWarn:
			r.Warnings++
		case VerdictFail:
			r.Failures++
		case VerdictOK:
		}
		r.Findings = append(r.Findings, f)
	}
	r.Healthy = r.Failures == 0
	// A store without SQL has no connection to test.
	if c.DB == nil {
		return r, nil
	}
	// If the database no longer answers, the findings prove nothing.
	return r, c.DB.PingContext(ctx) //nolint:wrapcheck // the caller knows what it has opened
}

// examination is a database with the results of earlier checks.
type examination struct {
	Config

	mariadb bool // the server is MariaDB and not MySQL; the check of the version sets the field
	pooler  bool // connections go through a pooler; the check of the pooler sets the field
}

// check is one check of a database. An error of ask says that the check could not be made. A finding without a verdict says that the check does not
// apply.
type check struct {
	name    string
	ask     func(context.Context, *examination) (Finding, error)
	runbook string // the name of a page of docs/runbooks
	table   string // the check does not apply if this table of the library does not exist; "": the check needs no table that may be missing
}

const runbooks = "https://github.com/oncelib/once/blob/main/docs/runbooks/"

func (p *examination) make(ctx context.Context, c check) (f Finding, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f, err := p.ask(ctx, c)
	// A check of tables that do not exist does not apply.
	if sqlguard.IsMissing(err) {
		return f, false // the check of the migrations reports a missing table
	}
	if err != nil {
		what, try := words.Advice(err.Error())
		f = warn("this check could not be made: "+what, words.Either(try != "", try, "use the URL of the database user of the service, or of a user who may read more"))
	}
	f.Check = c.name
	if c.runbook != "" && f.Verdict != VerdictOK && err == nil {
		f.Runbook = runbooks + c.runbook + ".md"
	}
	return f, f.Verdict != ""
}

// ask makes a check if its table exists.
func (p *examination) ask(ctx context.Context, c check) (Finding, error) {
	if c.table != "" {
		if ok, err := p.has(ctx, c.table); !ok || err != nil {
			return Finding{}, err
		}
	}
	return c.ask(ctx, p)
}

// has reports whether the database has a table. It asks the catalog: a statement that uses a missing table would write an error to the log of
// PostgreSQL.
func (p *examination) has(ctx context.Context, table string) (bool, error) {
	n := 0
	err := p.DB.QueryRowContext(ctx, dialect.Tables(p.Dialect), table).Scan(&n)
	return n > 0, err
}

// checks returns the checks of a dialect, in the order in which they are made.
func checks(d sqlplane.Dialect) []check {
	own := mysqlChecks
	switch d {
	case sqlplane.PostgreSQL:
		own = postgresChecks
	case sqlplane.SQLite:
		own = sqliteChecks
	case sqlplane.MySQL:
	}
	return slices.Concat(own, operationChecks, sagaChecks, outboxChecks, inboxChecks, letterChecks, webhookChecks, homeChecks)
}

func fine(format string, args ...any) Finding {
	return Finding{Verdict: VerdictOK, Says: fmt.Sprintf(format, args...)}
}

func warn(says, try string) Finding { return Finding{Verdict: VerdictWarn, Says: says, Try: try} }
func fail(says, try string) Finding { return Finding{Verdict: VerdictFail, Says: says, Try: try} }

// text returns the single value of a query.
func (p *examination) text(ctx context.Context, query string) (s string, err error) {
	err = p.DB.QueryRowContext(ctx, query).Scan(&s)
	return s, err
}

// operator calls ask with an operator of the database. It returns no finding if Config.Operator is nil.
func (p *examination) operator(ctx context.Context, ask func(*operate.Operator) (Finding, error)) (Finding, error) {
	if p.Operator == nil {
		return Finding{}, nil
	}
	o, done, err := p.Operator(ctx)
	if err != nil {
		return Finding{}, sqlguard.Said(err)
	}
	defer done()
	f, err := ask(o)
	return f, sqlguard.Said(err)
}
