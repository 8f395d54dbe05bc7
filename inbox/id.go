package inbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// errKnown says that the ID of a message is already stored. The transaction of the duplicate is rolled back.
var errKnown = notStoredError{errors.New("a message with this ID was handled before")}

// notStoredError ends a transaction without a commit, as planned. Observers of the engine do not report this end
// as a failure.
type notStoredError struct{ error }

func (e notStoredError) Unwrap() error   { return e.error }
func (e notStoredError) NotStored() bool { return true }

// addIDs inserts the IDs of items before their handlers run, so that a second delivery waits for the end of the
// first one. The IDs are inserted in a fixed order, so that two batches with the same messages do not deadlock.
// The error is errKnown if one of the IDs is already stored.
func (in *Inbox[TX]) addIDs(ctx context.Context, r sqlplane.Runner, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b *item) int { return compareIDs(&a.m, &b.m) })
	for rest := items; len(rest) > 0; {
		n, s := in.sql.chunk(len(rest)), store.Statement{SQL: in.sql.addOne}
		switch {
		case n == 1:
			s.Args = []any{in.cfg.Consumer, rest[0].m.Source, rest[0].m.ID, rest[0].hash, rest[0].envelope}
		case in.sql.addMany != "":
			rows := make([][]any, n)
			for i, it := range rest[:n] {
				rows[i] = []any{it.m.Source, it.m.ID, it.hash, it.envelope}
			}
			s.SQL, s.Args = in.sql.addMany, append([]any{in.cfg.Consumer}, dialect.Arrays(rows)...)
		default:
			s.SQL = in.sql.addRows[n]
			for _, it := range rest[:n] {
				s.Args = append(s.Args, in.cfg.Consumer, it.m.Source, it.m.ID, it.hash, it.envelope)
			}
		}
		switch added, err := r.Exec(ctx, s); {
		// On PostgreSQL, addOne inserts no row for a stored ID, and returns no error.
		case errors.Is(err, sqlplane.ErrDuplicate), err == nil && added < int64(n):
			return errKnown
		case err != nil:
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func compareIDs(a, b *message.Message) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.ID, b.ID))
}

// known is a row of once_inbox: a message that was applied or given up.
type known struct {
	hash      []byte
	envelope  []byte // nil in rows without an envelope
	processed bool   // false if the message was given up, and its dead letter waits
	result    []byte
}

// outcome returns the outcome of a message with the ID of k. The result same is false if the message has another
// payload, topic, key or type than k.
func (k *known) outcome(it *item) (o Outcome, same bool) {
	same = sameBody(k.hash, it.hash) && sameBody(k.envelope, it.envelope)
	if !k.processed {
		return DeadLettered, same
	}
	return Duplicate, same
}

// sameBody reports whether two hashes of payloads, or of envelopes, are equal. A marker has an empty hash, which
// equals every hash, because the marker replaces its message.
func sameBody(a, b []byte) bool { return len(a) == 0 || len(b) == 0 || bytes.Equal(a, b) }

// find returns the row of a message, or nil if the message has no row.
func (in *Inbox[TX]) find(ctx context.Context, r sqlplane.Runner, m *message.Message) (k *known, err error) {
	s := in.statement("select payload_hash, envelope, case when processed_at is null then 0 else 1 end, result from once_inbox where consumer = ? and source = ? and event_id = ?",
		in.cfg.Consumer, m.Source, m.ID)
	err = r.Query(ctx, s, func(row sqlplane.Row) error {
		k = new(known)
		var processed int64
		err := row.Scan(&k.hash, &k.envelope, &processed, &k.result)
		k.processed = processed == 1
		return err
	})
	return k, err
}

// idsOf returns the query of findAll. The result of a message is not read: only Do needs it.
func (in *Inbox[TX]) idsOf(items []*item) store.Statement {
	const columns = "select i.source, i.event_id, i.payload_hash, i.envelope, case when i.processed_at is null then 0 else 1 end from once_inbox i "
	args := []any{in.cfg.Consumer}
	if in.db.Dialect() == sqlplane.PostgreSQL {
		rows := make([][]any, len(items))
		for i, it := range items {
			rows[i] = []any{it.m.Source, it.m.ID}
		}
		return in.statement(columns+"join unnest(?::text[], ?::text[]) as t (source, event_id) on i.source = t.source and i.event_id = t.event_id where i.consumer = ?", append(dialect.Arrays(rows), args...)...)
	}
	for _, it := range items {
		args = append(args, it.m.Source, it.m.ID)
	}
	return in.statement(columns+"where i.consumer = ? and (1 = 0"+strings.Repeat(" or i.source = ? and i.event_id = ?", len(items))+")", args...)
}

// findAll sets the outcome of each item whose ID is stored, and returns the number of these items.
func (in *Inbox[TX]) findAll(ctx context.Context, items []*item) (found int, err error) {
	byID := make(map[identity]*item, len(items))
	for _, it := range items {
		it.replaces = ""
		if it.usesID() {
			byID[it.identity()] = it
		}
	}
	rest := make([]*item, 0, len(byID))
	for _, it := range byID {
		rest = append(rest, it)
	}
	dead := map[*item]*known{}
	for len(rest) > 0 {
		// Databases limit the number of arguments of a statement.
		n := min(len(rest), 100)
		err = in.db.Pool().Query(ctx, in.idsOf(rest[:n]), func(row sqlplane.Row) error {
			var id identity
			var k known
			var processed int64
			if err := row.Scan(&id.source, &id.id, &k.hash, &k.envelope, &processed); err != nil {
				return err
			}
			k.processed = processed == 1
			if it := byID[id]; it != nil {
				it.known(&k)
				found++
				if it.outcome == DeadLettered && !k.processed {
					dead[it] = &k
				}
			}
			return nil
		})
		if err != nil {
			return found, err
		}
		rest = rest[n:]
	}
	for it, k := range dead {
		if err := in.replaceable(ctx, in.db.Pool(), it, k); err != nil {
			return found, err
		}
		if it.replaces != "" { // the message is not known: it is applied in place of its letter
			it.forget()
		}
	}
	return found, nil
}
