package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// An inbox on PostgreSQL, against hand-written code with the same inserts.

// inboxed has the results of the section.
type inboxed struct {
	Present  int            `json:"present"`
	Figures  []figure       `json:"figures"` // of batches of 100
	Verdicts []verdict      `json:"verdicts"`
	Redrive  *inboxRedriven `json:"redrive,omitempty"`
}

const (
	inboxBatch   = 100
	inboxClients = 4

	nameRawInsert    = "raw insert"
	nameDedupe       = "inbox, handlers that do nothing"
	nameRawEffects   = "raw insert + effects"
	nameInboxEffects = "inbox + effects"
	nameAppended     = "inbox + effects appended"
	nameOneByOne     = "inbox, one by one"
	nameHandOne      = "by hand, one by one"
	nameSavepoints   = "inbox + effects, with savepoints"
	namePoison       = "inbox + effects, 10 % poison"
)

const (
	inboxConsumer = "billing"
	inboxSource   = "orders"

	// loadInbox makes applied messages, with IDs that are spread over the index.
	loadInbox = `insert into once_inbox (consumer, source, event_id, payload_hash, received_at, processed_at)
 select $1, $2, gen_random_uuid(), sha256(g::text::bytea), now(), now() from generate_series(1, $3) g`
	insertIDs = `insert into once_inbox (consumer, source, event_id, payload_hash, received_at, processed_at)
 select $1, $2, t.id, t.hash, now(), now() from unnest($3::text[], $4::bytea[]) as t (id, hash)`
	insertID = `insert into once_inbox (consumer, source, event_id, payload_hash, received_at, processed_at)
 values ($1, $2, $3, $4, now(), now()) on conflict do nothing`
)

// inboxField is an inbox, and hand-written consumers on the same table.
type inboxField struct {
	pool  *pgxpool.Pool
	store *pgxstore.Store
	in    *inbox.Inbox[pgx.Tx]
}

type silentInbox struct{}

func (silentInbox) Observe(context.Context, inbox.Event) {}

func (b *bench) inbox(ctx context.Context) (r *inboxed, err error) {
	r = &inboxed{Present: 2e6}
	if b.quick {
		r.Present = 1e5
	}
	f, err := b.openInbox(ctx, r.Present, silentInbox{})
	if err != nil {
		return nil, err
	}
	defer f.pool.Close()
	field := f.field()
	race := race{inboxClients, min(b.rounds, 20), b.slice, b.server.cpu(), field}
	if err := race.run(ctx); err != nil {
		return nil, err
	}
	if err := f.audit(ctx, r.Present, field); err != nil {
		return nil, err
	}
	for _, c := range field {
		for i := range c.laps { // per message, not per batch
			l := c.laps[i]
			c.laps[i] = lap{l.wall / inboxBatch, l.client / inboxBatch, l.server / inboxBatch, l.ops * inboxBatch}
		}
		r.Figures = append(r.Figures, c.figure())
	}
	for _, c := range []comparison{
		{nameDedupe, nameRawInsert, 0.6},
		{nameInboxEffects, nameRawEffects, 0.65},
		{nameInboxEffects, nameOneByOne, 4},
		{nameAppended, nameOneByOne, 8},
		{nameOneByOne, nameHandOne, 0.85},
		{namePoison, nameSavepoints, 0.75},
		{nameSavepoints, nameInboxEffects, 0},
	} {
		r.Verdicts = append(r.Verdicts, judge(field, c))
	}
	r.Redrive, err = b.inboxRedrive(ctx)
	return r, err
}

func (b *bench) openInbox(ctx context.Context, present int, o inbox.Observer) (*inboxField, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := b.server.pool(ctx, database, 2*inboxClients, nil)
	if err != nil {
		return nil, err
	}
	err = pgxstore.Migrate(ctx, pool, operate.Migrations, inbox.Migrations, deadletter.Migrations)
	if err == nil {
		_, err = pool.Exec(ctx, loadInbox, inboxConsumer, inboxSource, present)
	}
	if err == nil {
		_, err = pool.Exec(ctx, "vacuum analyze once_inbox")
	}
	if err == nil {
		_, err = pool.Exec(ctx, "checkpoint")
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := pgxstore.New(pool, pgxstore.Config{})
	engine := once.New(s, once.Config{})
	return &inboxField{pool, s, inbox.New(engine, inbox.Config{Consumer: inboxConsumer, Observer: o})}, nil
}

func (f *inboxField) field() []*contestant {
	return []*contestant{
		{name: nameRawInsert, run: f.rawInsert},
		{name: nameDedupe, run: f.batches(func(context.Context, pgx.Tx, message.Message) error { return nil })},
		{name: nameRawEffects, run: f.rawEffects},
		{name: nameInboxEffects, run: f.batches(inboxEffect)},
		{name: nameAppended, run: f.batches(f.appendedEffect)},
		{name: nameOneByOne, run: f.oneByOne},
		{name: nameHandOne, run: f.handOneByOne},
		{name: nameSavepoints, run: f.withSavepoints},
		{name: namePoison, run: f.poisoned},
	}
}

func newInboxMessages() []message.Message {
	list := make([]message.Message, inboxBatch)
	for i := range list {
		payload := make([]byte, 300)
		id := once.NewKey()
		copy(payload, id)
		list[i] = message.Message{ID: id, Source: inboxSource, Topic: "charges", Type: "charge.succeeded", Payload: payload}
	}
	return list
}

// effect is the effect of a message: one statement.
func effect(m message.Message) store.Statement {
	return store.Statement{SQL: insertEntryText, Args: []any{"le_" + m.ID, m.ID, "receivable", "debit", int64(1000)}}
}

func inboxEffect(ctx context.Context, tx pgx.Tx, m message.Message) error {
	s := effect(m)
	_, err := tx.Exec(ctx, s.SQL, s.Args...)
	return err
}

func (f *inboxField) appendedEffect(ctx context.Context, tx pgx.Tx, m message.Message) error {
	return f.store.On(tx).Append(ctx, effect(m))
}

// batches applies a batch, and expects that every message is applied.
func (f *inboxField) batches(h inbox.Handler[pgx.Tx]) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, r := range f.in.HandleBatch(ctx, newInboxMessages(), h) {
			if r.Err != nil || r.Outcome != inbox.Applied {
				return errors.Join(fmt.Errorf("a message is %q", r.Outcome), r.Err)
			}
		}
		return nil
	}
}

func (f *inboxField) oneByOne(ctx context.Context) error {
	for _, m := range newInboxMessages() {
		if o, err := f.in.Handle(ctx, m, inboxEffect); err != nil || o != inbox.Applied {
			return errors.Join(fmt.Errorf("a message is %q", o), err)
		}
	}
	return nil
}

var errOnce = errors.New("the first attempt fails")

// withSavepoints applies a batch in which one message fails once, with an error that counts no attempt: so all are applied again, each with a
// savepoint, and none becomes a dead letter.
func (f *inboxField) withSavepoints(ctx context.Context) error {
	n := 0
	return f.batches(func(ctx context.Context, tx pgx.Tx, m message.Message) error {
		if n++; n == 10 {
			return errOnce
		}
		return inboxEffect(ctx, tx, m)
	})(ctx)
}

// poisoned applies a batch in which every tenth message fails for good, after its effect.
func (f *inboxField) poisoned(ctx context.Context) error {
	list := newInboxMessages()
	poison := map[string]bool{}
	for i := 9; i < len(list); i += 10 {
		poison[list[i].ID] = true
	}
	results := f.in.HandleBatch(ctx, list, func(ctx context.Context, tx pgx.Tx, m message.Message) error {
		if err := inboxEffect(ctx, tx, m); err != nil {
			return err
		}
		if poison[m.ID] {
			return retry.Permanent(errors.New("the account is closed"))
		}
		return nil
	})
	for i, r := range results {
		want := inbox.Applied
		if poison[list[i].ID] {
			want = inbox.DeadLettered
		}
		if r.Err != nil || r.Outcome != want {
			return errors.Join(fmt.Errorf("a message is %q instead of %q", r.Outcome, want), r.Err)
		}
	}
	return nil
}

func hashes(list []message.Message) (ids []string, sums [][]byte) {
	for _, m := range list {
		sum := sha256.Sum256(m.Payload)
		ids, sums = append(ids, m.ID), append(sums, sum[:])
	}
	return ids, sums
}

func (f *inboxField) rawInsert(ctx context.Context) error {
	ids, sums := hashes(newInboxMessages())
	_, err := f.pool.Exec(ctx, insertIDs, inboxConsumer, inboxSource, ids, sums)
	return err
}

func (f *inboxField) rawEffects(ctx context.Context) error {
	list := newInboxMessages()
	ids, sums := hashes(list)
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertIDs, inboxConsumer, inboxSource, ids, sums); err != nil {
			return err
		}
		for _, m := range list {
			if err := inboxEffect(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *inboxField) handOneByOne(ctx context.Context) error {
	list := newInboxMessages()
	ids, sums := hashes(list)
	for i, m := range list {
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, insertID, inboxConsumer, inboxSource, ids[i], sums[i])
			if err == nil && tag.RowsAffected() == 0 {
				err = errTaken
			}
			if err != nil {
				return err
			}
			return inboxEffect(ctx, tx, m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// audit counts the written rows.
func (f *inboxField) audit(ctx context.Context, present int, field []*contestant) error {
	known, effects, letters := int64(present), int64(0), int64(0)
	for _, c := range field {
		n := c.ops * inboxBatch
		known += n
		switch c.name {
		case nameRawInsert, nameDedupe:
		case namePoison:
			effects += n * 9 / 10
			letters += n / 10
		default:
			effects += n
		}
	}
	for table, n := range map[string]int64{"once_inbox": known, "ledger_entry": effects, "once_deadletter": letters} {
		var rows int64
		if err := f.pool.QueryRow(ctx, "select count(*) from "+table).Scan(&rows); err != nil {
			return err
		}
		if rows != n {
			return fmt.Errorf("%d rows in %s, %d expected", rows, table, n)
		}
	}
	return nil
}

func (r *inboxed) write(p printer) {
	p("\n## Inbox\n")
	p("Messages are applied in batches of %d by %d clients, on PostgreSQL with %s messages that were applied before. **Raw insert** is one", inboxBatch, inboxClients, thousands(int64(r.Present)))
	p("statement that inserts the IDs and hashes of a batch into the same table, without a look at what is there. An **effect** is")
	p("an insert in a round trip of its own; **appended**, all of a batch travel with the COMMIT. **By hand, one by one** is `insert ... on")
	p("conflict do nothing`, the effect and COMMIT. **With savepoints**, a message of each batch fails once, so that all are applied again,")
	p("each under a savepoint; with **poison**, ten of each batch fail for good and become dead letters: all messages count.\n")
	writeVerdicts(p, r.Verdicts)
	p("\n| per message here | CPU client | CPU server | messages a second |")
	p("|---|---|---|---|")
	for _, f := range r.Figures {
		p("| %s | %.1f µs | %.1f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
	}
	if r.Redrive != nil {
		r.Redrive.write(p)
	}
}
