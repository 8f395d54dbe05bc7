package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// onMySQL is once on MySQL and on MariaDB, against the bare transaction and the hand-written key
// table.
type onMySQL struct {
	When    time.Time     `json:"when"`
	Rounds  int           `json:"rounds"`
	Load    [2]string     `json:"load"` // of the machine, before and after
	Servers []mysqlServer `json:"servers"`
}

// mysqlServer has the results of one server.
type mysqlServer struct {
	Name  string      `json:"name"` // with its version
	Costs []cost      `json:"costs"`
	Races []mysqlRace `json:"races"`
}

// mysqlRace is one isolation level with a number of clients.
type mysqlRace struct {
	Level    string    `json:"level"`
	Setting  string    `json:"setting"`
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
}

const (
	nameFailure = "failure"
	nameFloor   = "floor"
	mysqlKnown  = 500 // operations that are repeated
)

// isolationLevels are set on the server, so that transactions need not set their own.
var isolationLevels = []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"}

var mysqlSettings = []setting{
	{slug: "local1", title: "1", clients: 1},
	{slug: "local16", title: "16", clients: 16},
	{slug: "network16", title: "16, 1 ms of network", clients: 16, delay: time.Millisecond},
}

var mysqlComparisons = []comparison{
	{nameDo, nameBare, 0},
	{nameFirst, nameBare, 0},
	{nameBatch, nameBare, 0},
	{nameInsertUpdate, nameBare, 0},
	{nameFloor, nameBare, 0},
	{nameFloor, nameInsertUpdate, 0},
	{nameDo, nameInsertUpdate, 0},
	{nameFirst, nameInsertUpdate, 0},
	{nameBatch, nameInsertUpdate, 0},
	{nameReplays, nameDo, 0},
}

// mysqlBars are the bars against the hand-written table at READ COMMITTED: of CPU time, or with a delayed network of throughput.
var mysqlBars = map[string]map[string]float64{
	"16":                  {nameDo: 0.9, nameFirst: 1.1, nameBatch: 1.35},
	"16, 1 ms of network": {nameDo: 1.2, nameBatch: 2.5},
}

const (
	mysqlRecord = "insert into insert_update_key (scope, `key`, state, claim, fingerprint, status, body, since, expires_at) " +
		"values (?, ?, 2, ?, ?, 201, ?, unix_timestamp(now(3)) * 1000, unix_timestamp(now(3) + interval 72 hour) * 1000); commit"
	mysqlRunning = "insert into insert_update_key (scope, `key`, state, claim, fingerprint, since, expires_at) " +
		"values (?, ?, 1, ?, ?, unix_timestamp(now(3)) * 1000, unix_timestamp(now(3) + interval 72 hour) * 1000)"
	mysqlDone = "update insert_update_key set state = 2, status = 201, body = ? where scope = ? and `key` = ?"
)

func (b *bench) mysql(ctx context.Context) (*onMySQL, error) {
	m := &onMySQL{When: time.Now().UTC(), Rounds: b.rounds}
	m.Load[0] = load()
	for _, isMySQL := range []bool{false, true} {
		var s mysqlServer
		for _, level := range isolationLevels {
			if err := b.mysqlAt(ctx, isMySQL, level, &s); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", s.Name, level, err)
			}
		}
		m.Servers = append(m.Servers, s)
	}
	m.Load[1] = load()
	return m, nil
}

// load is the load average of the machine, over one minute.
func load() string {
	b, _ := os.ReadFile("/proc/loadavg") // without the file it is empty
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// mysqlAt adds to s the results of a new server with an isolation level.
func (b *bench) mysqlAt(ctx context.Context, isMySQL bool, level string, s *mysqlServer) (err error) {
	settings := map[string]string{"innodb-buffer-pool-size": "512M", "transaction-isolation": level}
	settings[map[bool]string{false: "innodb-log-file-size", true: "innodb-redo-log-capacity"}[isMySQL]] = "512M"
	server, err := testenv.StartMariaDB(ctx, testenv.MariaDBConfig{MySQL: isMySQL, Settings: settings})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if s.Name == "" {
		if err := b.mysqlCosts(ctx, server, s); err != nil {
			return err
		}
	}
	for _, as := range mysqlSettings {
		var dial func(ctx context.Context, network, addr string) (net.Conn, error)
		if as.delay > 0 {
			dial = network{as.delay}.dial
		}
		c, err := newMySQLCandidate(ctx, server, as.slug, as.clients, dial)
		if err != nil {
			return err
		}
		r := race{as.clients, b.rounds, b.slice, cpu{postmaster: server.Pid(), others: []int{server.Pid()}}, c.field()}
		if err = r.run(ctx); err == nil {
			err = c.audit(ctx, r.field)
		}
		if err = errors.Join(err, c.close()); err != nil {
			return err
		}
		result := mysqlRace{Level: strings.ReplaceAll(level, "-", " "), Setting: as.title}
		for _, c := range r.field {
			result.Figures = append(result.Figures, c.figure())
		}
		for _, c := range mysqlComparisons {
			result.Verdicts = append(result.Verdicts, judge(r.field, c))
		}
		s.Races = append(s.Races, result)
	}
	return nil
}

// mysqlCosts counts what one operation costs, as costs does.
func (b *bench) mysqlCosts(ctx context.Context, server *testenv.MariaDB, s *mysqlServer) (err error) {
	var wire faultnet.Wire
	c, err := newMySQLCandidate(ctx, server, "costs", 1, wire.DialContext)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var version string
	if err := c.plain.QueryRowContext(ctx, "select version()").Scan(&version); err != nil {
		return err
	}
	number, rest, _ := strings.Cut(version, "-")
	s.Name = "MySQL " + number
	if strings.Contains(rest, "MariaDB") {
		s.Name = "MariaDB " + number
	}
	witness, err := sql.Open("mysql", server.DSN("mysql"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, witness.Close()) }()
	for _, one := range append(c.field(), &contestant{name: nameFailure, run: c.failures}) {
		repeat := func(n int) error {
			for range n {
				if one.before != nil {
					one.before()
				}
				if err := one.run(ctx); err != nil {
					return err
				}
			}
			return nil
		}
		if err := repeat(warmUps); err != nil {
			return err
		}
		before, err := mysqlStatistics(ctx, witness)
		if err != nil {
			return err
		}
		trips := wire.Counts().RoundTrips
		if err := repeat(counted); err != nil {
			return err
		}
		trips = wire.Counts().RoundTrips - trips
		after, err := mysqlStatistics(ctx, witness)
		if err != nil {
			return err
		}
		per := func(n int64) float64 { return float64(n) / counted }
		s.Costs = append(s.Costs, cost{Name: one.name, Trips: per(trips), Commits: per(after.commits - before.commits), Rollbacks: per(after.rollbacks - before.rollbacks)})
	}
	return nil
}

func mysqlStatistics(ctx context.Context, db *sql.DB) (st statistics, err error) {
	for name, to := range map[string]*int64{"Com_commit": &st.commits, "Com_rollback": &st.rollbacks} {
		if err := db.QueryRowContext(ctx, "show global status like '"+name+"'").Scan(new(string), to); err != nil {
			return st, err
		}
	}
	return st, nil
}

// mysqlCandidate is once on one database, with the tables of the other contestants.
type mysqlCandidate struct {
	plain, guarded *sql.DB
	store          *sqlstore.Store
	engine, other  *once.Engine[*sql.Tx] // for other, the known operations are new
	known          []known
}

// newMySQLCandidate makes a database. dial may be nil.
func newMySQLCandidate(ctx context.Context, server *testenv.MariaDB, database string, clients int, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (_ *mysqlCandidate, err error) {
	if err := server.CreateDatabase(database); err != nil {
		return nil, err
	}
	cfg, err := mysql.ParseDSN(server.DSN(database) + "?multiStatements=true&interpolateParams=true") // as sqlstore.Open sets them
	if err != nil {
		return nil, err
	}
	cfg.DialFunc = dial
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	c := &mysqlCandidate{plain: sql.OpenDB(connector), guarded: sqlstore.OpenDB(sqlplane.MySQL, connector)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for _, db := range []*sql.DB{c.plain, c.guarded} {
		db.SetMaxOpenConns(clients)
		db.SetMaxIdleConns(clients)
	}
	if err := sqlstore.Migrate(ctx, c.guarded); err != nil {
		return nil, err
	}
	schema := strings.NewReplacer(" text not null default", " timestamp not null default", " text", " varchar(100)", "integer", "bigint").Replace(sqliteSchema) + "create table insert_update_key like once_operation"
	for table := range strings.SplitSeq(schema, ";") {
		if _, err := c.plain.ExecContext(ctx, table); err != nil {
			return nil, err
		}
	}
	if c.store, err = sqlstore.New(ctx, c.guarded, sqlstore.Config{}); err != nil {
		return nil, err
	}
	c.engine = once.New(c.store, once.Config{})
	c.restart()
	for range mysqlKnown {
		k := known{once.NewKey(), newOrder()}
		if err := c.execute(ctx, newOperation(k.key, k.order), k.order); err != nil {
			return nil, err
		}
		c.known = append(c.known, k)
	}
	return c, nil
}

func (c *mysqlCandidate) restart() { c.other = once.New(c.store, once.Config{}) }

func (c *mysqlCandidate) close() error { return errors.Join(c.plain.Close(), c.guarded.Close()) }

func (c *mysqlCandidate) field() []*contestant {
	return []*contestant{
		{name: nameBare, run: func(ctx context.Context) error { return bareSQL(ctx, c.plain) }},
		{name: nameInsertUpdate, run: c.insertUpdate},
		{name: nameFloor, run: c.floor},
		{name: nameDo, run: func(ctx context.Context) error { return doSQL(ctx, c.engine) }},
		{name: nameFirst, run: c.first},
		{name: nameBatch, run: c.batched},
		{name: nameReplays, before: c.restart, run: c.replays},
	}
}

// insertUpdate is the hand-written contestant of PostgreSQL, on database/sql.
func (c *mysqlCandidate) insertUpdate(ctx context.Context) error {
	o, key := newOrder(), once.NewKey()
	tx, err := c.plain.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce)
	fingerprint := o.fingerprint()
	if _, err := tx.ExecContext(ctx, mysqlRunning, scope, key, nonce, fingerprint[:]); err != nil {
		return err
	}
	r, err := o.placeSQL(ctx, tx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, mysqlDone, body, scope, key); err != nil {
		return err
	}
	return tx.Commit()
}

// floor is the minimal cost of a record: one insert in the packet of COMMIT, and no claim.
func (c *mysqlCandidate) floor(ctx context.Context) error {
	o, key := newOrder(), once.NewKey()
	conn, err := c.plain.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce)
	fingerprint := o.fingerprint()
	body, err := json.Marshal(o.response())
	if err != nil {
		return err
	}
	for _, statement := range []store.Statement{
		{SQL: "start transaction"},
		{SQL: insertChargeSQL, Args: []any{o.ChargeID, o.Customer, o.Amount, o.Currency}},
		{SQL: insertEntrySQL, Args: []any{o.EntryID, o.ChargeID, "receivable", "debit", o.Amount}},
		{SQL: mysqlRecord, Args: []any{scope, key, nonce, fingerprint[:], body}},
	} {
		if _, err := conn.ExecContext(ctx, statement.SQL, statement.Args...); err != nil {
			return err
		}
	}
	return nil
}

func (c *mysqlCandidate) execute(ctx context.Context, op once.Operation, o order) error {
	r, err := once.Do(ctx, c.engine, op, o.placeSQL)
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

func (c *mysqlCandidate) first(ctx context.Context) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	op.Attempt.Number = 1
	return c.execute(ctx, op, o)
}

func (c *mysqlCandidate) batched(ctx context.Context) error {
	o := newOrder()
	r, err := once.DoBatch(ctx, c.engine, newOperation(once.NewKey(), o), func(b *once.Batch) (receipt, error) {
		b.Exec(insertChargeSQL, o.ChargeID, o.Customer, o.Amount, o.Currency)
		b.Exec(insertEntrySQL, o.EntryID, o.ChargeID, "receivable", "debit", o.Amount)
		return o.response(), nil
	})
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

func (c *mysqlCandidate) replays(ctx context.Context) error {
	k := c.known[mrand.N(len(c.known))]
	r, err := once.Do(ctx, c.other, newOperation(k.key, k.order), func(context.Context, *sql.Tx) (receipt, error) {
		return receipt{}, errExecuted
	})
	if err == nil && (!r.Replayed || r.Value.Status != "succeeded") {
		err = errExecuted
	}
	return err
}

// failures are stored: their writes are rolled back before.
func (c *mysqlCandidate) failures(ctx context.Context) error {
	o := newOrder()
	declined := &once.Failure{Code: "card_declined"}
	_, err := once.Do(ctx, c.engine, newOperation(once.NewKey(), o), func(ctx context.Context, tx *sql.Tx) (receipt, error) {
		if _, err := o.placeSQL(ctx, tx); err != nil {
			return receipt{}, err
		}
		return receipt{}, declined
	})
	if f := (*once.Failure)(nil); errors.As(err, &f) && f.Code == declined.Code {
		return nil
	}
	return errors.Join(errExecuted, err)
}

// audit counts the written rows.
func (c *mysqlCandidate) audit(ctx context.Context, field []*contestant) error {
	n := int64(len(c.known))
	want := map[string]int64{"charge": n, "ledger_entry": n, "once_operation": n}
	for _, c := range field {
		switch c.name {
		case nameReplays:
			continue
		case nameInsertUpdate, nameFloor:
			want["insert_update_key"] += c.ops
		case nameDo, nameFirst, nameBatch:
			want["once_operation"] += c.ops
		}
		want["charge"] += c.ops
		want["ledger_entry"] += c.ops
	}
	for table, n := range want {
		var rows int64
		if err := c.plain.QueryRowContext(ctx, "select count(*) from "+table).Scan(&rows); err != nil {
			return err
		}
		if rows != n {
			return fmt.Errorf("%d rows in %s, %d expected", rows, table, n)
		}
	}
	return nil
}

func (m *onMySQL) write(p printer) {
	p("\n## MySQL and MariaDB\n")
	p("sqlstore over go-sql-driver/mysql with multiStatements and interpolateParams, each COMMIT on the disk, no binary log. **bare**, **insert-update**")
	p("and **floor**, which inserts a record in the packet of COMMIT and claims nothing, use the plain driver. **replays** are those of a process that has not seen the operation. A **failure** has made both")
	p("inserts when it is returned.")
	p("\n### Round trips and commits per operation\n")
	p("Counted on the client's socket, and in the server's statistics (Com_commit, Com_rollback).")
	for _, s := range m.Servers {
		p("\n| %s | round trips | commits | rollbacks | extra trips / commits against bare |", s.Name)
		p("|---|---|---|---|---|")
		base := s.Costs[0]
		for _, c := range s.Costs {
			p("| %s | %.4g | %.4g | %.4g | %+.4g / %+.4g |", c.Name, c.Trips, c.Commits, c.Rollbacks, c.Trips-base.Trips, c.Commits-base.Commits)
		}
	}
	p("\n### Throughput\n")
	p("The isolation level is that of the server. Operations have different keys. Measured on %s in %d rounds, with a load", m.When.Format(time.DateOnly), m.Rounds)
	p("average of %s before and %s after the run. **CPU** is the same ratio by CPU time.", m.Load[0], m.Load[1])
	for _, s := range m.Servers {
		s.write(p)
	}
}

// write has a column for each isolation level.
func (s mysqlServer) write(p printer) {
	var levels []string
	for _, r := range s.races(mysqlSettings[0].title) {
		levels = append(levels, r.Level)
	}
	header := func(what string) {
		p("\n| %s | clients | %s |", what, strings.Join(levels, " | "))
		p("|---|---|%s", strings.Repeat("---|", len(levels)))
	}
	header(s.Name)
	for _, as := range mysqlSettings {
		for i, c := range mysqlComparisons {
			row := []string{c.over + " / " + c.under, as.title}
			if bar := mysqlBars[as.title][c.over]; bar > 0 && c.under == nameInsertUpdate {
				row[0] += fmt.Sprintf(" (bar at READ COMMITTED: %.2f, %s)", bar, map[bool]string{true: "by throughput", false: "by CPU"}[as.delay > 0])
			}
			for _, race := range s.races(as.title) {
				v := race.Verdicts[i]
				row = append(row, fmt.Sprintf("**%.2f** [%.2f .. %.2f], CPU %.2f", v.Median, v.Min, v.Max, v.CPU))
			}
			p("| %s |", strings.Join(row, " | "))
		}
	}
	header("operations a second here, and CPU of client and server for each")
	for _, as := range mysqlSettings {
		races := s.races(as.title)
		for i, f := range races[0].Figures {
			row := []string{f.Name, as.title}
			for _, race := range races {
				f := race.Figures[i]
				row = append(row, fmt.Sprintf("%.0f, %.0f + %.0f µs", f.PerSecond, micros(f.Client), micros(f.Server)))
			}
			p("| %s |", strings.Join(row, " | "))
		}
	}
}

// races are the results of one setting, by isolation level.
func (s mysqlServer) races(setting string) (list []mysqlRace) {
	for _, r := range s.Races {
		if r.Setting == setting {
			list = append(list, r)
		}
	}
	return list
}
