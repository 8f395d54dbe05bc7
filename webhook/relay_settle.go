package webhook

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// settle writes the outcomes of deliveries, and then tells the observer. It returns the deliveries whose
// outcomes are not written because other transactions have locked their rows. It fails only if Run has ended; a
// delivered event may then be delivered again.
func (r *Relay) settle(ctx context.Context, list []*delivery) (locked []*delivery) {
	now := time.Now()
	for _, d := range list {
		if d.answer.delivered() {
			continue
		}
		if d.wait, d.steps = pauseAfter(d.attempts+1, d.answer.retryAfter, r.cfg.Schedule); d.steps == 0 {
			// The schedule is over, so a person decides.
			d.wait, d.steps = -1, 1
		}
		d.notice = r.noticeOf(d, now)
	}
	// All processes lock rows in the same order, so that they do not deadlock.
	slices.SortFunc(list, func(a, b *delivery) int {
		return cmp.Or(cmp.Compare(a.target.id, b.target.id), cmp.Compare(a.event, b.event))
	})
	var delivered, failed []*delivery
	for _, d := range list {
		if d.answer.delivered() {
			delivered = append(delivered, d)
		} else {
			failed = append(failed, d)
		}
	}
	// Separate statements, because settleRows deletes the rows of delivered events, and updates the rows of
	// failed ones.
	for _, some := range [][]*delivery{delivered, failed} {
		if len(some) == 0 {
			continue
		}
		rows := r.rows(ctx, some)
		var left []*delivery
		err := r.write(ctx, func(ctx context.Context) (err error) {
			left, err = r.settleAll(ctx, some, rows)
			return err
		})
		if err != nil {
			// write repeats until Run ends. Another process then delivers these events again.
			r.tell(ctx, RelayEvent{Type: EventDatabase, Err: err})
			return nil
		}
		locked = append(locked, left...)
	}
	var written []*delivery
	for _, d := range list {
		if !slices.Contains(locked, d) {
			written = append(written, d)
		}
	}
	// States come last: an outcome must not wait for a locked endpoint.
	r.stater.add(written)
	for _, d := range written {
		r.tellOutcome(ctx, d, now)
	}
	return locked
}

// settleAll writes rows as settleRows does. If the database refuses the rows, settleAll writes each row by
// itself, so that one bad row does not block others. If the database refuses a row because of the endpoint's
// answer, settleAll writes the row without the answer.
func (r *Relay) settleAll(ctx context.Context, list []*delivery, rows [][]any) (locked []*delivery, err error) {
	locked, err = r.settleRows(ctx, list, rows)
	if !isRefused(ctx, err) {
		// Any other error may be temporary: write tries all rows again.
		return locked, err
	}
	locked = nil
	for i := range list {
		left, err := r.settleRows(ctx, list[i:i+1], rows[i:i+1])
		if isRefused(ctx, err) {
			d := list[i]
			r.tell(ctx, RelayEvent{Type: EventDatabase, Tenant: d.tenant, Endpoint: d.target.uid, EventID: d.uid, Err: err})
			left, err = r.settleRows(ctx, list[i:i+1], r.rows(ctx, []*delivery{d.bare()}))
		}
		if err != nil {
			return nil, err
		}
		locked = append(locked, left...)
	}
	return locked, nil
}

// isRefused reports whether a statement has failed because of its content, so that it would fail again.
func isRefused(ctx context.Context, err error) bool {
	return err != nil && store.KindOf(err) == store.KindOther && ctx.Err() == nil
}

// bare returns a copy of a delivery without its answer. The copy keeps only whether the event was delivered.
func (d *delivery) bare() *delivery {
	plain := *d
	plain.answer.Attempt = Attempt{At: d.answer.At, Duration: d.answer.Duration, Cause: d.answer.Cause, Error: "closed"}
	if d.answer.delivered() {
		plain.answer.Error, plain.answer.Status = "", http.StatusOK
	}
	return &plain
}

// tellOutcome tells the observer the outcome of a delivery.
func (r *Relay) tellOutcome(ctx context.Context, d *delivery, now time.Time) {
	e := RelayEvent{Type: EventDelivered, Tenant: d.tenant, Endpoint: d.target.uid, EventID: d.uid, EventType: d.kind, Attempt: d.attempts + 1, Status: d.answer.Status, Duration: d.answer.Duration}
	if !d.answer.delivered() {
		e.Type, e.NextAt, e.Err = EventFailed, now.Add(d.wait), d.answer.err
		if e.Err == nil {
			e.Err = fmt.Errorf("HTTP %d", d.answer.Status)
		}
		if d.wait < 0 {
			e.Type, e.NextAt = EventRanOut, time.Time{}
		}
	}
	r.tell(ctx, e)
	if d.state != nil && d.state.failures == circuitFailures {
		e.Type, e.NextAt = EventCircuit, d.state.until
		r.tell(ctx, e)
	}
}

// rows returns the attempts of deliveries in the form that settleRows writes: endpoint, event, attempts, wait,
// steps, age, micros, status, error, size, answer, encrypted, cause, host, part, due. An answer that cannot be
// encrypted is dropped, so that the outcome does not wait for the key.
func (r *Relay) rows(ctx context.Context, list []*delivery) (rows [][]any) {
	for _, d := range list {
		a := &d.answer
		body := a.Answer
		if len(body) > 0 {
			var err error
			if body, err = r.hooks.seal(body, answerLabel(d.uid)); err != nil {
				r.tell(ctx, RelayEvent{Type: EventSealed, Tenant: d.tenant, Endpoint: d.target.uid, EventID: d.uid, Err: err})
				body = nil
			}
		}
		if body == nil {
			body = []byte{}
		}
		encrypted := r.hooks.Encrypter != nil && len(body) > 0
		rows = append(rows, []any{d.target.id, d.event, int64(d.attempts), d.micros(), int64(d.steps), time.Since(a.At).Microseconds(), a.Duration.Microseconds(), int64(a.Status), a.Error, a.Size, body, encrypted, string(a.Cause), a.Host, int64(d.part.Number), d.due})
	}
	return rows
}

const attemptColumns = "endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host"

// settleRows writes the outcomes of deliveries. Either all of them were delivered, or none. settleRows skips a
// row that has changed meanwhile, for example by Resend, or whose part another process has taken. So it can run
// again after a lost answer. It returns the deliveries whose rows other transactions have locked.
func (r *Relay) settleRows(ctx context.Context, list []*delivery, rows [][]any) (locked []*delivery, err error) {
	// The fast statement waits for locked rows, so it is only the first try.
	if r.db.Dialect() == sqlplane.PostgreSQL && list[0].waits == 0 {
		over, err := within(ctx, patience, func(ctx context.Context) error { return r.exec(ctx, r.settleArrays(list, rows, heldBy(list))) })
		// If the time has passed, a row is probably locked, and settleFree passes over it.
		if !over {
			return nil, err
		}
	}
	return r.settleFree(ctx, list, rows)
}

// settleFree does the work of settleRows in a transaction that waits for no row. The transaction may wait for
// another lock, such as a gap lock of MySQL. Then it is cancelled after a time, and repeated for each endpoint
// by itself.
func (r *Relay) settleFree(ctx context.Context, list []*delivery, rows [][]any) (locked []*delivery, err error) {
	most := statementTime
	if r.db.Dialect() != sqlplane.SQLite { // on SQLite only one transaction writes at a time
		most = min(most, patience<<min(list[0].waits/lockedTold, 4)) // longer after several waits, because the database may be slow rather than locked
	}
	over, err := within(ctx, most, func(ctx context.Context) error {
		return r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) (err error) {
			locked, err = r.settleIn(ctx, tx, list, rows, heldBy(list))
			return err
		})
	})
	switch {
	case err == nil:
		return locked, nil
	// This is not a lock of a row, so the caller tries all rows again.
	case !over || r.db.Dialect() == sqlplane.SQLite:
		return nil, err
	case list[0].target == list[len(list)-1].target: // the list is ordered by endpoint
		return list, nil
	}
	locked = nil
	for from := 0; from < len(list); {
		to := from
		for to < len(list) && list[to].target == list[from].target {
			to++
		}
		left, err := r.settleFree(ctx, list[from:to], rows[from:to])
		if err != nil {
			return nil, err
		}
		locked, from = append(locked, left...), to
	}
	return locked, nil
}

// within calls fn with a limit on its time. It reports whether fn has failed because this time, or a timeout of
// the database, has passed.
func within(ctx context.Context, most time.Duration, fn func(context.Context) error) (over bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err = fn(bounded)
	// The end of ctx itself is no sign of a lock.
	return err != nil && (bounded.Err() != nil || store.KindOf(err) == store.KindBusy) && ctx.Err() == nil, err
}

// settleArrays returns the statement that does the work of settleRows on PostgreSQL.
func (r *Relay) settleArrays(list []*delivery, rows [][]any, held []hold.Part) store.Statement {
	// The fence is checked once for the list. A check for each row would cost more. With this check the planner
	// also expects few rows, and looks up each row by its key.
	const from = `unnest(?::text::bigint[], ?::text::bigint[], ?::text::integer[], ?::text::bigint[], ?::text::integer[], ?::text::bigint[], ?::text::bigint[], ?::text::integer[], ?::text::text[], ?::text::bigint[], ?::text::bytea[], ?::text::boolean[], ?::text::text[], ?::text::text[], ?::text::smallint[], ?::text::bigint[])
 x(endpoint, event, attempts, wait, steps, age, micros, status, error, size, answer, encrypted, cause, host, part, due) where d.endpoint = x.endpoint and d.event = x.event and d.attempts = x.attempts and d.cause = x.cause
 and (d.cause <> 'resend' or d.due_at = timestamptz 'epoch' + x.due * interval '1 microsecond') and `
	locked, more := hold.Locked(holdTable, holdWork, held)
	still := "x.part = any(array(" + locked + "))"
	change := "delete from once_webhook_delivery d using " + from
	if !list[0].answer.delivered() {
		change = `update once_webhook_delivery d set attempts = d.attempts + x.steps, cause = '',
 due_at = case when x.wait >= 0 then NOW + x.wait * interval '1 microsecond' end from ` + from
	}
	return r.text("with changed as ("+change+still+` returning x.*)
 insert into once_webhook_attempt (`+attemptColumns+`) select endpoint, event, NOW - age * interval '1 microsecond', micros, status, error, size, answer, encrypted, cause, host from changed`, append(dialect.Arrays(rows), more...)...)
}

// settleIn does the work of settleRows in the transaction tx. It locks the rows that no other transaction has
// locked, and writes only the rows that have not changed.
func (r *Relay) settleIn(ctx context.Context, tx sqlplane.Runner, list []*delivery, rows [][]any, held []hold.Part) (locked []*delivery, err error) {
	query, args := hold.Locked(holdTable, holdWork, held)
	still := map[int]bool{} // by part
	err = tx.Query(ctx, r.text(query, args...), func(row sqlplane.Row) error {
		var part int
		err := row.Scan(&part)
		still[part] = true
		return err
	})
	// Another process has taken the parts, and delivers the remaining rows.
	if err != nil || len(still) == 0 {
		return nil, err
	}
	free, err := r.unchanged(ctx, tx, list, still, " FOR UPDATE SKIP LOCKED")
	if err == nil && len(free) < len(list) { // some rows are locked or have changed: a read without a lock finds out which
		rest := slices.DeleteFunc(slices.Clone(list), func(d *delivery) bool { return free[d] })
		var left map[*delivery]bool
		left, err = r.unchanged(ctx, tx, rest, still, "")
		locked = slices.DeleteFunc(rest, func(d *delivery) bool { return !left[d] })
	}
	if err != nil || len(free) == 0 {
		return locked, err
	}
	var changed []*delivery
	var values []any
	for i, d := range list {
		if free[d] {
			changed = append(changed, d)
			x := rows[i]
			values = append(values, x[0], x[1], x[5])
			values = append(values, x[6:len(x)-2]...)
		}
	}
	if _, err := tx.Exec(ctx, r.text(r.change(changed))); err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, r.text("insert into once_webhook_attempt ("+attemptColumns+") values (?, ?, AGO(?), ?, ?, ?, ?, ?, ?, ?, ?)"+
		strings.Repeat(", (?, ?, AGO(?), ?, ?, ?, ?, ?, ?, ?, ?)", len(changed)-1), values...))
	return locked, err
}

// unchanged returns the deliveries whose rows have not changed since the deliveries began, in parts that this
// process still holds. The text lock says how the rows are locked.
func (r *Relay) unchanged(ctx context.Context, tx sqlplane.Runner, list []*delivery, still map[int]bool, lock string) (unchanged map[*delivery]bool, err error) {
	type version struct {
		endpoint, event, attempts int64
		cause                     Cause
		due                       int64
	}
	// Only Resend changes a row that has a cause of Resend, and it changes the due time.
	of := func(endpoint, event, attempts int64, cause Cause, due int64) version {
		if cause != CauseResend {
			due = 0
		}
		return version{endpoint, event, attempts, cause, due}
	}
	found := map[version]bool{}
	err = tx.Query(ctx, r.text("select d.endpoint, d.event, d.attempts, d.cause, d.due_at, d.part from "+r.located(list)+lock), func(row sqlplane.Row) error {
		var v version
		var due time.Time
		var part int
		err := row.Scan(&v.endpoint, &v.event, &v.attempts, (*string)(&v.cause), (*dialect.Time)(&due), &part)
		found[of(v.endpoint, v.event, v.attempts, v.cause, due.UnixMicro())] = still[part]
		return err
	})
	unchanged = map[*delivery]bool{}
	for _, d := range list {
		if found[of(d.target.id, d.event, int64(d.attempts), d.cause, d.due)] {
			unchanged[d] = true
		}
	}
	return unchanged, err
}

// change returns the statement that deletes delivered rows, or sets the times of the next attempts.
func (r *Relay) change(list []*delivery) string {
	const set = " set attempts = d.attempts + x.steps, cause = '', due_at = case when x.wait >= 0 then NOW + x.wait / 1000 end"
	const same = " where d.endpoint = x.endpoint and d.event = x.event"
	dialect, delivered := r.db.Dialect(), list[0].answer.delivered()
	switch {
	case dialect == sqlplane.PostgreSQL && delivered:
		return "delete from once_webhook_delivery d using " + r.table(list) + same
	case dialect == sqlplane.PostgreSQL:
		return "update once_webhook_delivery d" + strings.Replace(set, "x.wait / 1000", "x.wait * interval '1 microsecond'", 1) + " from " + r.table(list) + same
	case dialect == sqlplane.MySQL && delivered:
		return "delete d from " + r.joined(list)
	case dialect == sqlplane.MySQL:
		return "update " + r.joined(list) + strings.ReplaceAll(strings.ReplaceAll(set, "attempts =", "d.attempts ="), "cause =", "d.cause =")
	case delivered:
		return "delete from once_webhook_delivery where (endpoint, event) in (select endpoint, event from " + r.table(list) + ")"
	}
	return "update once_webhook_delivery as d" + set + " from " + r.table(list) + same
}

// located returns the text that selects the rows d of deliveries. It lists the keys, because MySQL locks no
// rows that are joined with a json_table.
func (r *Relay) located(list []*delivery) string {
	var text strings.Builder
	text.WriteString("once_webhook_delivery d")
	if r.db.Dialect() == sqlplane.MySQL { // another plan would scan the table, and wait for rows of other transactions
		text.WriteString(" force index (primary)")
	}
	for i, d := range list {
		word := " or "
		if i == 0 {
			word = " where "
		}
		text.WriteString(word + "d.endpoint = " + strconv.FormatInt(d.target.id, 10) + " and d.event = " + strconv.FormatInt(d.event, 10))
	}
	return text.String()
}

// joined returns a join of deliveries with their rows for MySQL. Each row is looked up by its key: a scan of
// the table would wait for rows of other transactions.
func (r *Relay) joined(list []*delivery) string {
	return r.table(list) + " straight_join once_webhook_delivery d force index (primary) on d.endpoint = x.endpoint and d.event = x.event"
}

// micros returns the pause until the next attempt in microseconds, or -1 if no attempt follows.
func (d *delivery) micros() int64 {
	if d.wait < 0 {
		return -1
	}
	return d.wait.Microseconds()
}

// table returns a table of deliveries: endpoint, event, wait in microseconds, steps.
func (r *Relay) table(list []*delivery) string {
	mysql := r.db.Dialect() == sqlplane.MySQL
	var text strings.Builder
	for i, d := range list {
		if i > 0 {
			text.WriteByte(',')
		}
		values := strconv.FormatInt(d.target.id, 10) + "," + strconv.FormatInt(d.event, 10) + "," + strconv.FormatInt(d.micros(), 10) + "," + strconv.Itoa(d.steps)
		if mysql {
			text.WriteString("[" + values + "]")
		} else {
			text.WriteString("(" + values + ")")
		}
	}
	if mysql {
		return "json_table('[" + text.String() + "]', '$[*]' columns (endpoint bigint path '$[0]', event bigint path '$[1]', wait bigint path '$[2]', steps int path '$[3]')) x"
	}
	return "(select column1 as endpoint, column2 as event, column3 as wait, column4 as steps from (values " + text.String() + ") v) x"
}

// heldBy returns the parts of deliveries, in the order of their numbers.
func heldBy(list []*delivery) (held []hold.Part) {
	seen := map[hold.Part]bool{}
	for _, d := range list {
		if !seen[d.part] {
			seen[d.part] = true
			held = append(held, d.part)
		}
	}
	slices.SortFunc(held, func(a, b hold.Part) int { return cmp.Compare(a.Number, b.Number) })
	return held
}
