package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// consumerInbox is what the command needs of an inbox, on any store.
type consumerInbox interface {
	Gaps(ctx context.Context) ([]inbox.Gap, error)
	Skip(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
	StartAt(ctx context.Context, source, topic, key string, seq int64, who, reason string) error
}

// inboxOn returns the inbox of a consumer on s.
func inboxOn(s store.Database, consumer string) (consumerInbox, error) {
	cfg := inbox.Config{Consumer: consumer, Order: inbox.InOrder}
	switch s := s.(type) {
	case store.Store[*sql.Tx]:
		return inbox.New(once.New(s, once.Config{}), cfg), nil
	case store.Store[pgx.Tx]:
		return inbox.New(once.New(s, once.Config{}), cfg), nil
	}
	return nil, fmt.Errorf("%T has no transactions for an inbox", s)
}

// inboxDB is a database with its inboxes.
type inboxDB struct {
	*cli.Database

	store store.Database
}

// openInbox opens the inboxes of a database that is there and has been migrated.
func openInbox(ctx context.Context, m *cli.Env, dsn string) (*inboxDB, error) {
	db, s, err := m.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &inboxDB{db, s}, nil
}

// refused says in the words of the command why nothing was done, if err says so.
func (db *inboxDB) refused(doing string, err error) error {
	var e *store.Error
	switch {
	case cli.IsMissingTable(cli.OwnError(err)) && strings.Contains(cli.OwnError(err).Error(), "once_audit"):
		return fmt.Errorf("%s has no audit: %w. Try: once migrate up --only admin --db %s", db.Name, cli.OwnError(err), db.Paste)
	case cli.IsMissingTable(cli.OwnError(err)):
		return fmt.Errorf("%s has no inbox: %w. Try: once migrate up --only inbox --db %s", db.Name, cli.OwnError(err), db.Paste)
	case !errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // the inbox says why
		what, try := cli.Advice(err.Error())
		return fmt.Errorf("%s Try: %s", cli.Sentence(strings.TrimPrefix(what, "inbox: ")), cli.Either(try != "", try, "once inbox list --db "+db.Paste))
	}
	return db.Failed(doing, err)
}

// consumers returns the consumers that have keys with an order.
func (db *inboxDB) consumers(ctx context.Context) ([]string, error) {
	const most = 10_000
	return distinct(ctx, db.DB, db.Dialect, "once_inbox_position", "consumer", most)
}

// distinct returns the first values of the first column of an index, each found by one look at it.
func distinct(ctx context.Context, db *sql.DB, d store.Dialect, table, column string, most int) (list []string, err error) {
	query := dialect.Text(d, "select min("+column+") from "+table+" where "+column+" > ?")
	for last := ""; len(list) < most; {
		var next sql.NullString
		err := db.QueryRowContext(ctx, query, last).Scan(&next)
		if err != nil || !next.Valid {
			return list, err
		}
		last = next.String
		list = append(list, last)
	}
	return list, nil
}

// inboxKey is the flags that name a key of an inbox, and one of its messages.
type inboxKey struct {
	db, consumer, source, topic, key string
	seq                              int64
	reason, who                      string
	output                           cli.Form
	yes                              bool
}

func (c *inboxKey) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.consumer, "consumer", "", "the `CONSUMER`, as inbox.Config has it, required")
	fs.StringVar(&c.source, "source", "once", "the `SOURCE` of the messages")
	fs.StringVar(&c.topic, "topic", "", "the `TOPIC`")
	fs.StringVar(&c.key, "key", "", "the `KEY`, required")
	fs.Int64Var(&c.seq, "seq", 0, "the `NUMBER` of the message, required")
	fs.StringVar(&c.reason, "reason", "", "`WHY`, for the audit, required")
	fs.StringVar(&c.who, "by", cli.Operator(), "`WHO`, for the audit")
	fs.BoolVar(&c.yes, "yes", false, "do it")
	c.output.Flag(fs)
}

func (c *inboxKey) check(command string) error {
	try := "once inbox " + command + " --consumer CONSUMER --source SOURCE --topic TOPIC --key KEY --seq NUMBER --reason WHY --db URL"
	c.source = cmp.Or(c.source, "once") // as the inbox takes it
	for _, flag := range [...]struct {
		name    string
		missing bool
	}{{"consumer", c.consumer == ""}, {"key", c.key == ""}, {"seq", c.seq == 0}, {"reason", strings.TrimSpace(c.reason) == ""}} {
		if flag.missing {
			return cli.Usage("--"+flag.name+" is missing", try)
		}
	}
	if c.seq < 1 {
		return cli.Usage(fmt.Sprintf("--seq %d", c.seq), "--seq 1, or a greater number")
	}
	return checkConsumer(c.consumer)
}

// checkConsumer: inbox.New would panic.
func checkConsumer(consumer string) error {
	if len(consumer) > inbox.MaxConsumer || strings.ContainsFunc(consumer, unicode.IsControl) || !utf8.ValidString(consumer) {
		return cli.Usage(fmt.Sprintf("a consumer is printable text of at most %d bytes", inbox.MaxConsumer), "once inbox list --db URL")
	}
	return nil
}

// place is how far a key is.
type place struct {
	known  bool
	seq    int64 // of the last message that was applied or skipped
	parked int64
	dead   bool  // the next message is a dead letter
	below  int64 // parked messages with a number that is smaller than --seq
	there  bool  // the message --seq itself is parked
}

// find reads how far the key is, and which of its messages are parked.
func (c *inboxKey) find(ctx context.Context, db *inboxDB) (p place, err error) {
	const isKey = "consumer = ? and source = ? and topic = ? and KEY = ?"
	args := []any{c.consumer, c.source, c.topic, c.key}
	err = db.QueryRowContext(ctx, dialect.Text(db.Dialect, "select seq, parked, dead from once_inbox_position where "+isKey), args...).Scan(&p.seq, &p.parked, &p.dead)
	if errors.Is(err, sql.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, db.refused("read", err)
	}
	p.known = true
	var there int
	query := dialect.Text(db.Dialect, "select count(case when seq < ? then 1 end), count(case when seq = ? then 1 end) from once_inbox_parked where "+isKey)
	if err := db.QueryRowContext(ctx, query, append([]any{c.seq, c.seq}, args...)...).Scan(&p.below, &there); err != nil {
		return p, db.refused("read", err)
	}
	p.there = there > 0
	return p, nil
}

// subject names the key in words.
func (c *inboxKey) subject() string {
	return fmt.Sprintf("the key %s of the source %s, topic %s, consumer %s", cli.Shown(c.key), cli.Shown(c.source), cli.Shown(c.topic), cli.Shown(c.consumer))
}

// inboxChange is what skip and start-at have done. Its JSON form is a contract with scripts.
type inboxChange struct {
	Consumer string `json:"consumer"`
	Source   string `json:"source"`
	Topic    string `json:"topic"`
	Key      string `json:"key"`
	Seq      int64  `json:"seq"`
	Next     int64  `json:"next"`    // the number of the message that the key waits for, before the change
	Parked   int64  `json:"parked"`  // before the change
	Dropped  int64  `json:"dropped"` // of the parked ones
	Dead     bool   `json:"dead"`    // Next is a dead letter, before the change
	Changed  bool   `json:"changed"` // false: a preview
}

// change carries a command out, or with no --yes tells what it would do. plan says for the place of the key what is done, and how many messages are
// dropped, or why nothing is.
func (c *inboxKey) change(ctx context.Context, m *cli.Env, preview, done string, plan func(*inboxDB, place) (what string, dropped int64, err error), do func(consumerInbox) error) error {
	db, err := openInbox(ctx, m, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := c.find(ctx, db)
	if err != nil {
		return err
	}
	what, dropped, err := plan(db, p)
	if err != nil {
		return err
	}
	if !c.yes {
		if err := c.tell(m, preview+what, p, dropped); err != nil {
			return err
		}
		return m.Preview("--yes")
	}
	in, err := inboxOn(db.store, c.consumer)
	if err == nil {
		err = do(in)
	}
	if err != nil {
		return db.refused("change", err)
	}
	return c.tell(m, done+what, p, dropped)
}

func (c *inboxKey) tell(m *cli.Env, doing string, p place, dropped int64) error {
	if c.output != cli.Table {
		return cli.WriteJSON(m.Stdout, c.output, inboxChange{c.consumer, c.source, c.topic, c.key, c.seq, p.seq + 1, p.parked, dropped, p.dead, c.yes})
	}
	_, err := fmt.Fprintln(m.Stdout, doing)
	return err
}
