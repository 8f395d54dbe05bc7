package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/aged"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	sweepBatch = 1000      // the maximum number of rows of one transaction
	graveFor   = time.Hour // a deleted endpoint keeps its row for this time, for a Send that has already read it
)

// Swept is how many rows [Hooks.Sweep] has deleted.
type Swept struct {
	Events      int64
	Undelivered int64 // deliveries that were older than Config.Retain, and were still waiting or had stopped
	Attempts    int64
	Endpoints   int64 // endpoints that a person had deleted
}

// Sweep deletes rows that are older than Config.Retain, and the rows of deleted endpoints. Sweep uses small
// transactions, with a pause after each transaction. A relay calls Sweep periodically. Several calls of Sweep may
// run at the same time.
func (h *Hooks[TX]) Sweep(ctx context.Context) (Swept, error) {
	return sweep(ctx, h.db, h.cfg.Retain, h.cfg.Archive)
}

func sweep(ctx context.Context, db sqlplane.Database, retain time.Duration, archive aged.Archive) (s Swept, err error) {
	w := sweeper{db}
	if err := w.graves(ctx, &s); err != nil {
		return s, err
	}
	// The database has written the times of the rows, so its clock decides about their age.
	now, err := w.now(ctx)
	from := now.Add(-retain)
	since := dialect.StoredTime(db.Dialect(), from) // with this condition no later row is deleted, even if the clock of the database has jumped
	var event, attempt int64
	if err == nil {
		event, err = firstSince(ctx, db, "created_at from once_webhook_event where ", from)
	}
	if err == nil {
		attempt, err = firstSince(ctx, db, "at from once_webhook_attempt where ", from)
	}
	// Deliveries are deleted before their events. Each endpoint is swept by itself, including deleted
	// endpoints.
	for endpoint := int64(-1); err == nil; {
		endpoint, err = w.number(ctx, "select coalesce(min(endpoint), 0) from once_webhook_delivery where endpoint > ?", endpoint)
		if err != nil || endpoint == 0 {
			break
		}
		var n int64
		n, err = w.removeOld(ctx, "once_webhook_delivery", "event", "created_at", since, "endpoint = ? and event < ?", endpoint, event)
		s.Undelivered += n
	}
	if err == nil {
		s.Events, err = w.age(ctx, archivedEvents, event, from, retain, archive)
	}
	if err == nil {
		s.Attempts, err = w.age(ctx, archivedAttempts, attempt, from, retain, archive)
	}
	return s, err
}

// sweeper deletes rows in small transactions.
type sweeper struct{ db sqlplane.Database }

func (w sweeper) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(w.db.Dialect(), query), Args: args}
}

// remove deletes the rows of a table that meet a condition, in the order of a column, and returns their number.
// Between two transactions it pauses for as long as the last one took, so that the database has time for other
// work.
func (w sweeper) remove(ctx context.Context, table, column, where string, args ...any) (removed int64, err error) {
	return w.removeOld(ctx, table, column, "", nil, where, args...)
}

// removeOld deletes rows as remove does, but only rows whose time in the column at is before since. If at is
// "", it deletes all rows that meet the condition.
func (w sweeper) removeOld(ctx context.Context, table, column, at string, since any, where string, args ...any) (removed int64, err error) {
	// With this capacity, append copies the slice and does not write into the slice of the caller.
	args = args[:len(args):len(args)]
	after := int64(-1)
	for {
		began := time.Now()
		var first, last int64
		// The time is only a condition of the delete. As a condition of this read, it would make PostgreSQL
		// expect few rows and read the whole table.
		batch := fmt.Sprintf("select coalesce(min(%[1]s), 0), coalesce(max(%[1]s), 0) from (select %[1]s from %[2]s where %[3]s and %[1]s > ? order by %[1]s limit %[4]d) x", column, table, where, sweepBatch)
		err = w.db.Pool().Query(ctx, w.text(batch, append(args, after)...), func(row sqlplane.Row) error { return row.Scan(&first, &last) })
		if err != nil || last == 0 {
			return removed, err
		}
		// The delete has both bounds. Without the first one, PostgreSQL expects a third of the table and reads
		// all of it.
		statement, bounds := "delete from "+table+" where "+where+" and "+column+" between ? and ?", slices.Concat(args, []any{first, last})
		// Rows that are too young stay, so the next batch must begin after this one.
		if at != "" {
			statement, bounds, after = statement+" and "+at+" < ?", append(bounds, since), last
		}
		var n int64
		err = letter.Within(ctx, w.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
			n, err = r.Exec(ctx, w.text(statement, bounds...))
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += n
		sleep.For(ctx, time.Since(began))
	}
}

// graves deletes the rows of deleted endpoints.
func (w sweeper) graves(ctx context.Context, s *Swept) error {
	var all, old []int64
	err := w.db.Pool().Query(ctx, w.text("select id, case when deleted_at < AGO(?) then 1 else 0 end from once_webhook_endpoint where deleted_at is not null order by id", graveFor.Microseconds()), func(row sqlplane.Row) error {
		var id, isOld int64
		err := row.Scan(&id, &isOld)
		if all = append(all, id); isOld == 1 {
			old = append(old, id)
		}
		return err
	})
	// Deliveries and attempts of a deleted endpoint can be deleted at once. Only its own row must wait.
	for _, id := range all {
		if err == nil {
			_, _, err = w.rows(ctx, id)
		}
	}
	for _, id := range old {
		for _, statement := range []string{"delete from once_webhook_state where endpoint = ?", "delete from once_webhook_endpoint where id = ?"} {
			if err == nil {
				_, err = w.db.Pool().Exec(ctx, w.text(statement, id))
			}
		}
		if err == nil {
			s.Endpoints++
		}
	}
	return err
}

// rows deletes the deliveries and attempts of an endpoint.
func (w sweeper) rows(ctx context.Context, endpoint int64) (deliveries, attempts int64, err error) {
	deliveries, err = w.remove(ctx, "once_webhook_delivery", "event", "endpoint = ?", endpoint)
	if err == nil {
		attempts, err = w.remove(ctx, "once_webhook_attempt", "event", "endpoint = ?", endpoint)
	}
	return deliveries, attempts, err
}

func (w sweeper) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = w.db.Pool().Query(ctx, w.text(query, args...), func(row sqlplane.Row) error { return row.Scan(&n) })
	return n, err
}

func (w sweeper) now(ctx context.Context) (now time.Time, err error) {
	err = w.db.Pool().Query(ctx, w.text("select NOW"), func(row sqlplane.Row) error { return row.Scan((*dialect.Time)(&now)) })
	return now, err
}

// firstSince returns a number below which each row of a table is older than t. The text in what has a column
// and its table, such as "created_at from once_webhook_event where ". The numbers of rows grow with their time,
// except for rows of slow transactions, so a binary search finds the number.
func firstSince(ctx context.Context, db sqlplane.Database, what string, t time.Time) (int64, error) {
	var from, to int64
	w := sweeper{db}
	_, rest, _ := strings.Cut(what, " ")
	err := db.Pool().Query(ctx, w.text("select coalesce(min(id), 0), coalesce(max(id), 0) + 1 "+rest+"id > 0"), func(row sqlplane.Row) error { return row.Scan(&from, &to) })
	for err == nil && from < to {
		middle := from + (to-from)/2
		// If no row follows the middle, the number is at most the middle.
		id, later := to, true
		err = db.Pool().Query(ctx, w.text("select id, "+what+"id >= ? order by id limit 1", middle), func(row sqlplane.Row) error {
			var at time.Time
			err := row.Scan(&id, (*dialect.Time)(&at))
			later = !at.Before(t)
			return err
		})
		if later {
			to = middle
		} else {
			from = id + 1
		}
	}
	return to, err
}
