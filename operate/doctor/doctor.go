// Package doctor examines a database for settings that would break a promise of once, and for work that waits for a person. It writes nothing.
//
//	report, err := doctor.Examine(ctx, doctor.Config{DB: db, Dialect: sqlplane.PostgreSQL, Name: "orders", Operator: operator})
//
// The command once doctor prints its report, and a console can show it.
package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// Config says which database is examined. Required are Name, and either DB with Dialect or Store. If a function is missing, the checks that need it
// are left out.
type Config struct {
	// Store is a store that has no SQL, such as a redisstore or a dynamostore: the checks ask whether it can work, and which data it may lose.
	Store any

	DB      *sql.DB // without a guard; one connection is enough
	Dialect sqlplane.Dialect
	Name    string // for people, without a password
	URL     string // the argument of --db in the commands that findings advise; default: "URL"
	Path    string // of an SQLite file
	Host    string // of the server, in the service's configuration: some services are recognised by it

	AsService bool // the connections of DB have the settings of the service's connections
	Synced    bool // the service sets once.Config.Synced

	// RestoredTo is the moment of the backup from which the database was restored. If it is set, the checks find the work that a person must look at
	// again; the other checks are not made.
	RestoredTo time.Time

	// Status returns the migrations of all capabilities, as sqlstore.Status and pgxstore.Status do.
	Status func(ctx context.Context) ([]migration.Status, error)

	// Operator returns an operator of the database, and a function to call when it is no longer needed.
	Operator func(ctx context.Context) (*operate.Operator, func(), error)

	// StoreError returns the reason why a store refuses to start, or nil. Only MySQL and MariaDB are asked: their sessions have settings that a store
	// needs.
	StoreError func(ctx context.Context) error

	// Rehearse migrates in a session of MySQL or MariaDB whose variable readOnly is 1, so that nothing is written, and returns the error.
	Rehearse func(ctx context.Context, readOnly string) error

	// BackendPID returns the process ID that PostgreSQL has sent to the driver when it connected.
	BackendPID func(ctx context.Context) (uint32, error)

	// BouncerSettings returns the result of "show config" on the console of PgBouncer.
	BouncerSettings func(ctx context.Context) (map[string]string, error)

	// Broker opens the broker of the outbox and of the inboxes.
	Broker func() (*Broker, error)
}

// Broker is the destination of an outbox, or the source of messages of an inbox.
type Broker struct {
	Name string // for people, without a password

	// Check returns the settings of the broker that endanger the promises of the outbox for these topics, one sentence for each. Nil means that it
	// has no such settings.
	Check func(ctx context.Context, topics []string) ([]string, error)

	// CheckConsumers returns the same for the consumers of the broker that have one of these names, and how many such consumers exist. Nil means that
	// the broker keeps no settings of consumers.
	CheckConsumers func(ctx context.Context, names []string) (found int, findings []string, err error)

	Close func()
}

// Verdict is how bad a finding is.
type Verdict string

const (
	VerdictOK   Verdict = "ok"
	VerdictWarn Verdict = "warn" // a failure may be noticed late, something costs more than necessary, or work waits for a person
	VerdictFail Verdict = "fail" // a promise does not hold on this database, or once cannot work with it
)

// Finding is the answer to one check.
type Finding struct {
	Check   string   `json:"check"` // a name for scripts, which does not change
	Verdict Verdict  `json:"level"`
	Says    string   `json:"says"`
	Try     string   `json:"try,omitempty"`     // advice; "" if the verdict is VerdictOK
	First   []string `json:"first,omitempty"`   // IDs or names of the first counted rows
	Runbook string   `json:"runbook,omitempty"` // the page of the alert for the same trouble, if there is one
}

// Report has the findings of all checks.
type Report struct {
	Database string    `json:"database"`
	Dialect  string    `json:"dialect"`
	Healthy  bool      `json:"healthy"` // nothing fails
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
	Findings []Finding `json:"findings"`
}

// checkTimeout bounds one check: counting rows may take long.
const checkTimeout = 10 * time.Second

// Examine makes all checks. If the user of the database lacks a privilege for a check, that is a warning. Examine returns an error if the database
// does not answer any more.
func Examine(ctx context.Context, c Config) (Report, error) {
	if c.DB == nil && c.Store == nil || c.Name == "" {
		return Report{}, errors.New("doctor: Config.DB or Config.Name is missing. Try: both, or Config.Store and Config.Name")
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
	if c.DB == nil {
		return r, nil
	}
	return r, c.DB.PingContext(ctx) //nolint:wrapcheck // the caller knows what it has opened
}

// examination is a database, and the results of earlier checks.
type examination struct {
	Config

	mariadb bool // it is not MySQL: set by the check of the version
	pooler  bool // connections go through a pooler: set by the check of the pooler
}

// check is one question to a database. An error means that it was not answered. A finding without a verdict means that the question does not apply.
type check struct {
	name    string
	ask     func(context.Context, *examination) (Finding, error)
	runbook string // a page of docs/runbooks
}

const runbooks = "https://github.com/oncelib/once/blob/main/docs/runbooks/"

func (p *examination) make(ctx context.Context, c check) (f Finding, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f, err := c.ask(ctx, p)
	if sqlguard.IsMissing(err) {
		return f, false // another check reports it
	}
	if err != nil {
		what, try := words.Advice(err.Error())
		f = warn("not known: "+what, words.Either(try != "", try, "use the database user of the service, or a user with more read permissions"))
	}
	f.Check = c.name
	if c.runbook != "" && f.Verdict != VerdictOK && err == nil {
		f.Runbook = runbooks + c.runbook + ".md"
	}
	return f, f.Verdict != ""
}

// checks of each dialect, in the order in which they are made.
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

// text returns one value of the database.
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
