package webhook

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Lanes of settlers: failures and successes are never written by the same statement, so that neither waits for the other.
const (
	laneDelivered = iota
	laneFailed
	lanes
)

const (
	settlersOfLane = 2   // concurrent statements of a lane: one is written while another waits for its commit
	settleMost     = 256 // deliveries in a statement
)

func (d *delivery) lane() int {
	if d.answer.delivered() && d.state == nil {
		return laneDelivered
	}
	return laneFailed
}

// settler writes the outcomes of deliveries, many in one statement. A statement applies only while this process
// still holds the parts.
type settler struct {
	relay *Relay
	mu    sync.Mutex
	list  []*delivery
	ended bool // no other delivery comes
	woken chan struct{}
}

func (s *settler) add(d *delivery) {
	s.mu.Lock()
	s.list = append(s.list, d)
	s.mu.Unlock()
	notify(s.woken)
}

// end lets run return when all outcomes are written.
func (s *settler) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	notify(s.woken)
}

// take returns the deliveries for one statement. ok reports that more may follow.
func (s *settler) take() (list []*delivery, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.list), settleMost)
	list, s.list = s.list[:n:n], s.list[n:]
	if len(s.list) > 0 || s.ended {
		notify(s.woken) // the next one of run
	}
	return list, n > 0 || !s.ended
}

// run works until end is called. It may be called several times at once.
func (s *settler) run(ctx context.Context) {
	for {
		list, ok := s.take()
		switch {
		case !ok:
			return
		case len(list) == 0:
			<-s.woken
			continue
		}
		s.relay.settle(ctx, list)
		for _, d := range list {
			s.relay.board.settled(d)
			d.done()
		}
	}
}

// settle writes outcomes, and then tells the observer. It fails only when Run ends; then an event that was delivered may be delivered again.
func (r *Relay) settle(ctx context.Context, list []*delivery) {
	now := time.Now()
	for _, d := range list {
		if d.answer.delivered() {
			continue
		}
		d.wait = -1
		// An endpoint may ask for a longer pause by Retry-After, and not for a shorter one.
		if pause, again := pauseAfter(d.attempts+1, r.cfg.Schedule); again {
			d.wait = max(pause, d.answer.retryAfter)
		}
		d.notice = r.noticeOf(d, now)
	}
	// All processes lock rows in the same order, against deadlocks.
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
	// Separately, because settleRows deletes the delivered rows and changes the failed ones.
	for _, some := range [][]*delivery{delivered, failed} {
		if len(some) == 0 {
			continue
		}
		rows := r.rows(ctx, some)
		if err := r.write(ctx, func(ctx context.Context) error { return r.settleAll(ctx, some, rows) }); err != nil {
			r.tell(ctx, RelayEvent{Type: EventDatabase, Err: err})
			return
		}
	}
	r.stater.add(list)
	for _, d := range list {
		r.tellOutcome(ctx, d, now)
	}
}

// settleAll is settleRows. If the database refuses the rows, it writes each one by itself, so that one bad row does not block the outcomes of others.
// A row that the database refuses because of the endpoint's answer is written without the answer.
func (r *Relay) settleAll(ctx context.Context, list []*delivery, rows [][]any) error {
	err := r.settleRows(ctx, list, rows)
	if !isRefused(ctx, err) {
		// Any other error may pass: write tries all of them again.
		return err
	}
	for i := range list {
		err := r.settleRows(ctx, list[i:i+1], rows[i:i+1])
		if isRefused(ctx, err) {
			d := list[i]
			r.tell(ctx, RelayEvent{Type: EventDatabase, Tenant: d.tenant, Endpoint: d.target.uid, EventID: d.uid, Err: err})
			err = r.settleRows(ctx, list[i:i+1], r.rows(ctx, []*delivery{d.bare()}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isRefused reports whether a statement has failed because of its content, so that it would fail again.
func isRefused(ctx context.Context, err error) bool {
	return err != nil && store.KindOf(err) == store.KindOther && ctx.Err() == nil
}

// bare returns a copy of a delivery without its answer: only whether it was delivered is left.
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

// rows are the attempts of deliveries as settleRows writes them: endpoint, event, attempts, wait, age, micros, status, error, size, answer,
// encrypted, cause, host, part. An answer that cannot be encrypted is not kept, so that the outcome does not wait for the key.
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
		rows = append(rows, []any{d.target.id, d.event, int64(d.attempts), d.micros(), time.Since(a.At).Microseconds(), a.Duration.Microseconds(), int64(a.Status), a.Error, a.Size, body, encrypted, string(a.Cause), a.Host, int64(d.part.Number)})
	}
	return rows
}

const attemptColumns = "endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host"

// settleRows writes the outcomes of deliveries; either all of them were delivered, or none. It skips a row that has changed meanwhile, for example by
// Resend, or whose part another process has taken, and stores no attempt for it. So it can be repeated after a lost answer.
func (r *Relay) settleRows(ctx context.Context, list []*delivery, rows [][]any) error {
	held := heldBy(list)
	if r.db.Dialect() == sqlplane.PostgreSQL {
		return r.exec(ctx, r.settleArrays(list, rows, held))
	}
	return r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) error {
		return r.settleIn(ctx, tx, list, rows, held)
	})
}

// settleArrays is settleRows in one statement.
func (r *Relay) settleArrays(list []*delivery, rows [][]any, held []hold.Part) store.Statement {
	// The fence is compared once, for the list of parts; compared in the join, it would be looked up for each
	// row. With this form the planner expects few rows of the list, and looks each up by its key.
	const from = `unnest(?::text::bigint[], ?::text::bigint[], ?::text::integer[], ?::text::bigint[], ?::text::bigint[], ?::text::bigint[], ?::text::integer[], ?::text::text[], ?::text::bigint[], ?::text::bytea[], ?::text::boolean[], ?::text::text[], ?::text::text[], ?::text::smallint[])
 x(endpoint, event, attempts, wait, age, micros, status, error, size, answer, encrypted, cause, host, part) where d.endpoint = x.endpoint and d.event = x.event and d.attempts = x.attempts and d.cause = x.cause and `
	locked, more := hold.Locked(holdTable, holdWork, held)
	still := "x.part = any(array(" + locked + "))"
	change := "delete from once_webhook_delivery d using " + from
	if !list[0].answer.delivered() {
		change = `update once_webhook_delivery d set attempts = d.attempts + 1, cause = '',
 due_at = case when x.wait >= 0 then NOW + x.wait * interval '1 microsecond' end from ` + from
	}
	return r.text("with changed as ("+change+still+` returning x.*)
 insert into once_webhook_attempt (`+attemptColumns+`) select endpoint, event, NOW - age * interval '1 microsecond', micros, status, error, size, answer, encrypted, cause, host from changed`, append(dialect.Arrays(rows), more...)...)
}

// settleIn is settleRows in a transaction: it locks the rows, and writes only the rows that have not changed.
func (r *Relay) settleIn(ctx context.Context, tx sqlplane.Runner, list []*delivery, rows [][]any, held []hold.Part) error {
	query, args := hold.Locked(holdTable, holdWork, held)
	still := map[int]bool{} // by part
	err := tx.Query(ctx, r.text(query, args...), func(row sqlplane.Row) error {
		var part int
		err := row.Scan(&part)
		still[part] = true
		return err
	})
	// Another process has taken the parts over, and delivers the remaining rows.
	if err != nil || len(still) == 0 {
		return err
	}
	type version struct {
		attempts int64
		cause    string
	}
	found := map[[2]int64]version{}
	err = tx.Query(ctx, r.text("select d.endpoint, d.event, d.attempts, d.cause, d.part from "+r.located(list)+" FOR UPDATE"), func(row sqlplane.Row) error {
		var endpoint, event int64
		var of version
		var part int
		err := row.Scan(&endpoint, &event, &of.attempts, &of.cause, &part)
		if still[part] {
			found[[2]int64{endpoint, event}] = of
		}
		return err
	})
	if err != nil {
		return err
	}
	var changed []*delivery
	var values []any
	for i, d := range list {
		if of, exists := found[[2]int64{d.target.id, d.event}]; exists && of == (version{int64(d.attempts), string(d.cause)}) {
			changed = append(changed, d)
			x := rows[i]
			values = append(values, x[0], x[1], x[4])
			values = append(values, x[5:len(x)-1]...)
		}
	}
	// All rows have changed, or another process has written these outcomes already.
	if len(changed) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, r.text(r.change(changed))); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, r.text("insert into once_webhook_attempt ("+attemptColumns+") values (?, ?, AGO(?), ?, ?, ?, ?, ?, ?, ?, ?)"+
		strings.Repeat(", (?, ?, AGO(?), ?, ?, ?, ?, ?, ?, ?, ?)", len(changed)-1), values...))
	return err
}

// change removes delivered rows, or sets the times of the next attempts.
func (r *Relay) change(list []*delivery) string {
	const set = " set attempts = d.attempts + 1, cause = '', due_at = case when x.wait >= 0 then NOW + x.wait / 1000 end"
	mysql, delivered := r.db.Dialect() == sqlplane.MySQL, list[0].answer.delivered()
	switch {
	case mysql && delivered:
		return "delete d from " + r.joined(list)
	case mysql:
		return "update " + r.joined(list) + strings.ReplaceAll(strings.ReplaceAll(set, "attempts =", "d.attempts ="), "cause =", "d.cause =")
	case delivered:
		return "delete from once_webhook_delivery where (endpoint, event) in (select endpoint, event from " + r.table(list) + ")"
	}
	return "update once_webhook_delivery as d" + set + " from " + r.table(list) + " where d.endpoint = x.endpoint and d.event = x.event"
}

// located are the rows d of deliveries. MySQL locks nothing that is joined with a json_table.
func (r *Relay) located(list []*delivery) string {
	var text strings.Builder
	text.WriteString("once_webhook_delivery d")
	if r.db.Dialect() == sqlplane.MySQL { // a plan that reads the table would wait for rows of others
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

// joined is a table of deliveries with their rows, one by one, on MySQL. A plan that reads the table of deliveries would wait for rows of others.
func (r *Relay) joined(list []*delivery) string {
	return r.table(list) + " straight_join once_webhook_delivery d force index (primary) on d.endpoint = x.endpoint and d.event = x.event"
}

// micros is the pause until the next attempt in microseconds; -1 means no further attempt.
func (d *delivery) micros() int64 {
	if d.wait < 0 {
		return -1
	}
	return d.wait.Microseconds()
}

// table is a table of deliveries: endpoint, event, wait in microseconds.
func (r *Relay) table(list []*delivery) string {
	mysql := r.db.Dialect() == sqlplane.MySQL
	var text strings.Builder
	for i, d := range list {
		if i > 0 {
			text.WriteByte(',')
		}
		values := strconv.FormatInt(d.target.id, 10) + "," + strconv.FormatInt(d.event, 10) + "," + strconv.FormatInt(d.micros(), 10)
		if mysql {
			text.WriteString("[" + values + "]")
		} else {
			text.WriteString("(" + values + ")")
		}
	}
	if mysql {
		return "json_table('[" + text.String() + "]', '$[*]' columns (endpoint bigint path '$[0]', event bigint path '$[1]', wait bigint path '$[2]')) x"
	}
	return "(select column1 as endpoint, column2 as event, column3 as wait from (values " + text.String() + ")) x"
}

// heldBy returns the parts of deliveries.
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
