package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

var migrations = []migration.Set{outbox.Migrations, inbox.Migrations, deadletter.Migrations, operate.Migrations}

const (
	source  = "/shop"
	topic   = "orders"
	ordered = "billing" // wants all numbers
	newest  = "view"    // wants the newest one
	effect  = "create table effect (consumer varchar(20) not null, event varchar(100) not null)"
)

var by = operate.By{Who: "ada", Reason: "restored"}

// pair is a sender and a consumer, each with a database of its own.
type pair struct {
	*testing.T

	sender, consumer harness.Database
	retains          time.Duration // what is delivered
}

func newPair(t *testing.T, kind string) *pair {
	t.Helper()
	return &pair{T: t, sender: harness.Migrated(t, kind, migrations), consumer: harness.Migrated(t, kind, migrations, effect)}
}

// with opens the sender for one function, as a process does that lives so long.
func (p *pair) with(onPgx func(harness.Store[pgx.Tx]) error, onSQL func(harness.Store[*sql.Tx]) error) {
	p.Helper()
	must(p, p.sender.Use(p.Context(), onPgx, onSQL))
}

// add adds an event to each of some keys, each in an operation of its own. Its payload is name and key.
func (p *pair) add(name string, keys ...string) {
	p.Helper()
	p.with(
		func(s harness.Store[pgx.Tx]) error { return add(p.Context(), s, name, keys) },
		func(s harness.Store[*sql.Tx]) error { return add(p.Context(), s, name, keys) })
}

func add[TX any](ctx context.Context, s harness.Store[TX], name string, keys []string) error {
	engine, box := once.New(s, once.Config{Observer: once.Discard}), outbox.New(s, outbox.Config{Source: source})
	for _, key := range keys {
		op := once.Operation{Scope: "shop", Key: once.NewKey()}
		_, err := once.Do(ctx, engine, op, func(ctx context.Context, tx TX) (string, error) {
			return "", box.Add(ctx, tx, message.Message{Topic: topic, Key: key, Type: "order", Payload: []byte(name + " " + key)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deliver has a relay deliver all that waits to the two inboxes of the consumer.
func (p *pair) deliver() {
	p.Helper()
	s, db, err := p.consumer.SQLStore(p.Context())
	must(p, err)
	defer func() { _ = db.Close() }()
	to := consumers(s)
	p.with(
		func(s harness.Store[pgx.Tx]) error { return deliver(p, s, to) },
		func(s harness.Store[*sql.Tx]) error { return deliver(p, s, to) })
}

func deliver[TX any](p *pair, s harness.Store[TX], to outbox.Publisher) error {
	relay := outbox.New(s, outbox.Config{Source: source, RetainDelivered: p.retains}).Relay(to, outbox.RelayConfig{TTL: time.Second})
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	harness.Until(p, func() error {
		if n := harness.Count(p, s, "select count(*) from once_outbox"); n > 0 {
			return fmt.Errorf("%d messages wait", n)
		}
		return nil
	})
	cancel()
	return <-ended
}

// consumers applies what is published in both inboxes: what it applies is an effect.
func consumers(s *sqlstore.Store) outbox.Publisher {
	engine := once.New(s, once.Config{Observer: once.Discard})
	quiet := inbox.Observers()
	inboxes := map[string]*inbox.Inbox[*sql.Tx]{
		ordered: inbox.New(engine, inbox.Config{Consumer: ordered, Order: inbox.InOrder, Observer: quiet}),
		newest:  inbox.New(engine, inbox.Config{Consumer: newest, Order: inbox.LatestVersion, Observer: quiet}),
	}
	return outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		errs := make([]error, len(messages))
		for name, in := range inboxes {
			for i, r := range in.HandleBatch(ctx, messages, func(ctx context.Context, tx *sql.Tx, m message.Message) error {
				_, err := s.On(tx).Exec(ctx, harness.Text(s, "insert into effect (consumer, event) values (?, ?)", name, string(m.Payload)))
				return err
			}) {
				errs[i] = errors.Join(errs[i], r.Err)
			}
		}
		return errs
	})
}

// wantEffects compares what a consumer has applied since some effects, with numbers of how often.
func (p *pair) wantEffects(when, consumer string, want ...string) {
	p.Helper()
	s, db, err := p.consumer.SQLStore(p.Context())
	must(p, err)
	defer func() { _ = db.Close() }()
	var got []string
	must(p, s.Pool().Query(p.Context(), harness.Text(s, "select event from effect where consumer = ? order by event", consumer), func(row sqlplane.Row) error {
		var event string
		err := row.Scan(&event)
		got = append(got, event)
		return err
	}))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.Errorf("%s, %s has applied\n%s\nwant each of these once\n%s", when, consumer, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// operate opens a database for an operator.
func (p *pair) operate(d harness.Database, do func(*operate.Operator) error) {
	p.Helper()
	must(p, d.Use(p.Context(),
		func(s harness.Store[pgx.Tx]) error { return do(operate.New(s, operate.Config{})) },
		func(s harness.Store[*sql.Tx]) error { return do(operate.New(s, operate.Config{})) }))
}

// now is the time of a database.
func (p *pair) now(d harness.Database) (now time.Time) {
	p.Helper()
	p.operate(d, func(o *operate.Operator) (err error) {
		now, err = o.Keys.Now(p.Context())
		return err
	})
	return now
}

// examine is once doctor --after-restore.
func examine(t *testing.T, d harness.Database, restoredTo time.Time) map[string]doctor.Finding {
	t.Helper()
	s, db, err := d.SQLStore(t.Context())
	must(t, err)
	defer func() { _ = db.Close() }()
	r, err := doctor.Examine(t.Context(), doctor.Config{DB: db, Dialect: s.Dialect(), Name: "test", RestoredTo: restoredTo})
	must(t, err)
	found := map[string]doctor.Finding{}
	for _, f := range r.Findings {
		if found[f.Check] = f; f.Verdict != doctor.VerdictOK && f.Try == "" || strings.Contains(f.Says, "could not be made:") {
			t.Errorf("%s: %q, try %q", f.Check, f.Says, f.Try)
		}
	}
	return found
}

// TestARestoredSender: consumers have seen the numbers that a restored sender gives to new messages, and skip them. After once outbox renumber, and
// once inbox renumber where all numbers are wanted, each new message is applied once, also those of keys that the backup does not have, and also if
// the same backup is restored a second time. Without it they are skipped.
func TestARestoredSender(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		p := newPair(t, kind)
		p.add("1", "a", "b")
		p.deliver()
		p.add("2", "a") // waits at the moment of the backup
		moment := p.now(p.sender)
		restore := backup(t, p.sender)
		p.deliver()
		p.add("3", "a", "lost") // of the time that is lost
		p.add("4", "lost")
		p.deliver()
		applied := []string{"1 a", "1 b", "2 a", "3 a", "3 lost", "4 lost"}
		p.wantEffects("before", ordered, applied...)

		restore()
		p.add("skipped", "a", "lost")
		p.deliver()
		p.wantEffects("without the commands", ordered, applied...) // that is the hazard
		p.wantEffects("without the commands", newest, applied...)

		first, second := "5", "6"
		var after int64
		for _, name := range []string{first, second} {
			restore()
			found := examine(t, p.sender, moment)
			if f := found["restore_numbers"]; f.Verdict != doctor.VerdictWarn || !strings.HasPrefix(f.Says, "new messages of 2 keys ") || !slices.Equal(f.First, []string{"orders a", "orders b"}) || !strings.Contains(f.Try, "once outbox renumber") {
				t.Errorf("%+v", f)
			}
			if f := found["restore_outbox"]; f.Verdict != doctor.VerdictWarn || !strings.HasPrefix(f.Says, "1 message ") || len(f.First) != 1 {
				t.Errorf("%+v", f)
			}
			if f := found["restore_work"]; f.Verdict != doctor.VerdictOK {
				t.Errorf("%+v", f)
			}
			p.operate(p.sender, func(o *operate.Operator) error {
				if _, err := o.Outbox.Renumber(t.Context(), by); !errors.Is(err, outbox.ErrBacklog) {
					t.Errorf("with a message that waits: %v", err)
				}
				return nil
			})
			p.deliver()
			p.operate(p.sender, func(o *operate.Operator) error {
				n, err := o.Outbox.Renumber(t.Context(), by)
				if n <= after {
					t.Errorf("numbers go on after %d, and after %d before", n, after)
				}
				after = n
				return err
			})
			if f := examine(t, p.sender, moment)["restore_numbers"]; f.Verdict != doctor.VerdictOK || !strings.Contains(f.Says, fmt.Sprint(after)) {
				t.Errorf("%+v", f)
			}
			if name == second { // messages may come before the command, and wait
				p.add("early "+name, "a", "b")
				p.deliver()
				applied = append(applied, "early "+name+" a", "early "+name+" b")
			}
			p.operate(p.consumer, func(o *operate.Operator) error {
				n, err := o.Inbox.Renumber(t.Context(), by, ordered, source, after)
				if want := map[string]int{second: 2}[name]; n != want {
					t.Errorf("%d keys waited, want %d", n, want)
				}
				return err
			})
			p.add(name, "a", "b", "lost", "new")
			p.add("next "+name, "a", "lost", "new")
			p.deliver()
			for _, key := range []string{"a", "b", "lost", "new"} {
				if applied = append(applied, name+" "+key); key != "b" {
					applied = append(applied, "next "+name+" "+key)
				}
			}
			p.drain()
			p.wantEffects("after the "+name+"th", ordered, applied...)
			p.wantEffects("after the "+name+"th", newest, applied...)
			if f := examine(t, p.sender, moment)["restore_work"]; f.Verdict != doctor.VerdictWarn {
				t.Errorf("the service has worked: %+v", f)
			}
		}
	})
}

// drain applies what is parked, as inbox.Run does.
func (p *pair) drain() {
	p.Helper()
	s, db, err := p.consumer.SQLStore(p.Context())
	must(p, err)
	defer func() { _ = db.Close() }()
	in := inbox.New(once.New(s, once.Config{Observer: once.Discard}), inbox.Config{Consumer: ordered, Order: inbox.InOrder, Observer: inbox.Observers()})
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- in.Run(ctx, func(ctx context.Context, tx *sql.Tx, m message.Message) error {
			_, err := s.On(tx).Exec(ctx, harness.Text(s, "insert into effect (consumer, event) values (?, ?)", ordered, string(m.Payload)))
			return err
		})
	}()
	harness.Until(p, func() error {
		if n := harness.Count(p, s, "select count(*) from once_inbox_parked"); n > 0 {
			return fmt.Errorf("%d messages are parked", n)
		}
		return nil
	})
	cancel()
	<-ended
}
