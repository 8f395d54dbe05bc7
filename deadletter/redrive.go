package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// RedriveOptions says how letters are tried again. Who and Reason are required.
type RedriveOptions struct {
	Who, Reason string

	Rate   float64 // how many letters become due in a second, at least 0.0001; 0 means that all letters become due at once
	Canary bool    // if Canary is true, one letter is tried first, and the remaining letters become due only after this letter was applied
	DryRun bool    // if DryRun is true, Redrive only counts the letters that it would choose

	// Retain is how long the receivers remember the IDs of messages. If the first failure of a message was
	// longer ago than Retain, the message may have been applied, and the receiver may have deleted its ID.
	// Therefore the redrive does not choose the dead letter of a message that has first failed longer ago than
	// Retain, unless BeyondRetention is set. Default: 7 days.
	Retain          time.Duration
	BeyondRetention bool
}

const defaultRetention = 7 * 24 * time.Hour

// RedriveState is the state of a redrive.
type RedriveState string

const (
	RedriveRunning   RedriveState = "running"   // some dead letters wait to be chosen, or to be tried again
	RedriveDone      RedriveState = "done"      // every dead letter of the redrive was tried again
	RedriveCancelled RedriveState = "cancelled" // a person has cancelled the redrive
	RedriveStopped   RedriveState = "stopped"   // the canary has failed, or was discarded
)

// Redrive is a set of letters that are tried again, with the results that are known so
// far.
type Redrive struct {
	UID         string
	Who, Reason string
	Filter      Filter
	Rate        float64
	State       RedriveState
	CreatedAt   time.Time

	Total     int64 // how many letters were chosen; in a dry run, how many would be chosen
	Waiting   int64 // how many letters were not tried yet
	Applied   int64 // how many letters were resolved: applied, or stale
	Failed    int64 // how many letters have failed, and are dead again
	Discarded int64
	Left      int64  // how many letters were not chosen because their first failure was longer ago than RedriveOptions.Retain; set only by a dry run and by Letters.Redrive
	More      bool   // in a dry run: Filter.Most has ended the count, so that Total and Left may be greater
	Canary    string // the UID of the letter that is tried first; the remaining letters wait until this letter is applied

	chosen bool // no letter is left that could be chosen
}

// Redrive makes letters due again for the processes that handle them: [Inbox.Run] and relays. Redrive returns as
// soon as it has chosen all letters, which takes a short time. If RedriveOptions.Canary is set, Redrive waits
// until the canary (the letter that is tried first) was applied or has failed. The method Progress returns the
// results.
//
// After an error, or if the process was killed, call Resume to continue the redrive. A second call of Redrive
// chooses only letters that no redrive has chosen yet. RedriveOptions.Rate says how fast letters become due. If
// letters become due while no process handles messages, the next process that starts tries these letters without
// the limit Rate.
//
// [Inbox.Run]: https://pkg.go.dev/github.com/oncelib/once/inbox#Inbox.Run
func (l *Letters) Redrive(ctx context.Context, f Filter, o RedriveOptions) (Redrive, error) {
	if err := o.check(); err != nil {
		return Redrive{}, err
	}
	f.State = StateDead
	// All matching letters must be chosen: a limit on the rows that are read would silently leave letters out.
	if !o.DryRun {
		f.Most = 0
	}
	plan, left, err := l.plan(ctx, f, &o)
	if err != nil {
		return Redrive{}, err
	}
	if o.DryRun {
		return Redrive{Filter: f, Rate: o.Rate, Total: plan.count, Left: left, More: plan.more}, nil
	}
	uid := once.NewKey()
	if err := l.create(ctx, uid, plan, o); err != nil {
		return Redrive{}, err
	}
	done, err := l.Resume(ctx, uid)
	done.Left = left
	return done, err
}

// minRate is one letter in about three hours. Then a page of letters is due within four months.
const (
	minRate = 1e-4
	maxRate = 1e6
)

func (o *RedriveOptions) check() error {
	if o.Rate != 0 && !(o.Rate >= minRate && o.Rate <= maxRate) { // this form refuses NaN as well
		return fmt.Errorf("deadletter: the rate %v is not between 0.0001 and 1,000,000 letters per second. Try: 0, which redrives all letters at once", o.Rate)
	}
	if o.DryRun {
		return nil
	}
	return checkSigned(o.Who, o.Reason)
}

// maxSigned is the longest Who and Reason, in bytes.
const maxSigned = 512

func checkSigned(who, reason string) error {
	for _, field := range [...]struct{ name, value, try string }{
		{"Who", who, "the name of the person or service that asks for the redrive"}, {"Reason", reason, "the reason, such as the number of a ticket"},
	} {
		if strings.TrimSpace(field.value) == "" {
			return fmt.Errorf("deadletter: %s is empty. Try: %s", field.name, field.try)
		}
		if !utf8.ValidString(field.value) || strings.ContainsFunc(field.value, unicode.IsControl) || strings.TrimSpace(field.value) != field.value {
			return fmt.Errorf("deadletter: %s contains control characters, begins or ends with a blank, or is not UTF-8. Try: one line of text", field.name)
		}
		if len(field.value) > maxSigned {
			return fmt.Errorf("deadletter: %s has %d bytes, and at most %d are allowed. Try: a shorter text", field.name, len(field.value), maxSigned)
		}
	}
	return nil
}

// plan describes the letters that a redrive chooses. The database stores it as JSON.
type plan struct {
	Filter

	DeadUntil   time.Time `json:"dead_until"`            // letters that became dead later are not chosen
	FailedSince time.Time `json:"failed_since,omitzero"` // letters whose first failure was earlier are not chosen
	count       int64
	more        bool // the count has ended at Filter.Most
}

// where returns the condition on the letters that the plan can choose.
func (p *plan) where(d sqlplane.Dialect) (string, []any, error) {
	where, args, err := p.Filter.where(d)
	where, args = where+" and redrive_at is null and dead_at <= ?", append(args, dialect.StoredTime(d, p.DeadUntil))
	if !p.FailedSince.IsZero() {
		where, args = where+" and first_failed_at >= ?", append(args, dialect.StoredTime(d, p.FailedSince))
	}
	return where, args, err
}

// plan counts the letters to choose, and the letters that are too old.
func (l *Letters) plan(ctx context.Context, f Filter, o *RedriveOptions) (p plan, left int64, err error) {
	d := l.db.Dialect()
	p.Filter = f
	// The database's clock has written the times of the letters, so it must give this time as well.
	err = l.db.Pool().Query(ctx, l.statement("select NOW"), func(row sqlplane.Row) error { return row.Scan((*dialect.Time)(&p.DeadUntil)) })
	if err != nil {
		return p, 0, err
	}
	where, args, err := p.where(d)
	if err != nil {
		return p, 0, err
	}
	if o.BeyondRetention {
		p.count, _, p.more, err = l.count(ctx, f, where, args, "1 = 1")
		return p, 0, err
	}
	retention := o.Retain
	if retention <= 0 {
		retention = defaultRetention
	}
	p.FailedSince = p.DeadUntil.Add(-retention)
	var all int64
	all, p.count, p.more, err = l.count(ctx, f, where, args, "first_failed_at >= ?", dialect.StoredTime(d, p.FailedSince))
	return p, all - p.count, err
}

// create stores a redrive. It may run twice for one redrive.
func (l *Letters) create(ctx context.Context, uid string, p plan, o RedriveOptions) error {
	filter, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("deadletter: the filter: %w", err)
	}
	canary := ""
	if o.Canary {
		canary = firstCanary
	}
	detail := fmt.Sprintf("redrive %s of %s: %d letters, rate %v, canary %v, beyond retention %v", uid, p.Filter, p.count, o.Rate, o.Canary, o.BeyondRetention)
	return letter.Within(ctx, l.db, func(ctx context.Context, r sqlplane.Runner) error {
		const insert = `insert into once_deadletter_redrive (uid, filter, rate, canary, state, who, reason, created_at, last_uid, last_at, total) values (?, ?, ?, ?, 'running', ?, ?, NOW, '', NOW, 0)`
		if _, err := r.Exec(ctx, l.statement(insert, uid, string(filter), o.Rate, canary, o.Who, o.Reason)); err != nil {
			return err
		}
		_, err := r.Exec(ctx, audit.Insert(l.db.Dialect(), audit.Entry{Who: o.Who, Action: "redrive", Scope: scopeOf(p.Filter), Reason: o.Reason, Detail: detail}))
		return err
	})
}

// scopeOf returns the scope of a change in the audit.
func scopeOf(f Filter) string { return strings.TrimSpace("deadletter " + f.Origin + " " + f.Consumer) }

// Progress returns the redrive with the given UID. For each result, the returned Redrive contains the number of
// its letters with this result.
func (l *Letters) Progress(ctx context.Context, uid string) (Redrive, error) {
	list, err := l.redrives(ctx, "uid = ?", uid)
	if err == nil && len(list) == 0 {
		err = ErrNoRun
	}
	if err != nil {
		return Redrive{}, err
	}
	return l.counted(ctx, list[0])
}

// Redrives returns the redrives that are not complete. To continue a redrive, call Resume.
func (l *Letters) Redrives(ctx context.Context) ([]Redrive, error) {
	return l.redrives(ctx, "state = 'running'")
}

func (l *Letters) redrives(ctx context.Context, where string, args ...any) ([]Redrive, error) {
	query := "select uid, filter, rate, canary, state, who, reason, created_at, total from once_deadletter_redrive where " + where + " order by uid"
	return collect(ctx, l.db.Pool(), l.statement(query, args...), func(row sqlplane.Row) (r Redrive, err error) {
		var filter []byte
		if err := row.Scan(&r.UID, &filter, &r.Rate, &r.Canary, &r.State, &r.Who, &r.Reason, (*dialect.Time)(&r.CreatedAt), &r.Total); err != nil {
			return r, err
		}
		if r.Canary == firstCanary {
			r.Canary = ""
		}
		r.chosen = r.State != RedriveRunning
		return r, json.Unmarshal(filter, &r.Filter)
	})
}

// counted returns r with the results of its letters.
func (l *Letters) counted(ctx context.Context, r Redrive) (Redrive, error) {
	query := "select state, count(*), count(redrive_at) from once_deadletter where redrive = ? group by state"
	err := l.db.Pool().Query(ctx, l.statement(query, r.UID), func(row sqlplane.Row) error {
		var state State
		var n, waiting int64
		if err := row.Scan(&state, &n, &waiting); err != nil {
			return err
		}
		switch state {
		case StateDead:
			r.Waiting, r.Failed = waiting, n-waiting
		case StateDiscarded:
			r.Discarded = n
		default:
			r.Applied += n
		}
		return nil
	})
	// "done" in the row only says that every letter is chosen: some of them may not have been tried yet.
	if r.State == RedriveDone && r.Waiting > 0 {
		r.State = RedriveRunning
	}
	return r, err
}

// Cancel ends a redrive. Letters that the redrive has not tried yet wait for the decision of a person
// again. Attempts in flight are not cancelled. If the process was killed during Cancel, call Cancel again.
func (l *Letters) Cancel(ctx context.Context, uid, who, reason string) (Redrive, error) {
	if err := checkSigned(who, reason); err != nil {
		return Redrive{}, err
	}
	before, err := l.Progress(ctx, uid)
	if err != nil {
		return Redrive{}, err
	}
	err = letter.Within(ctx, l.db, func(ctx context.Context, r sqlplane.Runner) error {
		// Another Cancel was faster. Its letters may not all be called back yet, so the loop runs in any case.
		n, err := r.Exec(ctx, l.statement("update once_deadletter_redrive set state = 'cancelled' where uid = ? and state in ('running', 'done')", uid))
		if err != nil || n == 0 {
			return err
		}
		_, err = r.Exec(ctx, audit.Insert(l.db.Dialect(), audit.Entry{Who: who, Action: "cancel", Scope: scopeOf(before.Filter), Reason: reason, Detail: "redrive " + uid}))
		return err
	})
	for more := true; more && err == nil; {
		err = letter.Within(ctx, l.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
			more, err = l.callBack(ctx, r, uid)
			return err
		})
	}
	if err != nil {
		return Redrive{}, err
	}
	return l.Progress(ctx, uid)
}

// callBack makes a page of letters of a cancelled redrive wait for a person. more is true if letters may be left.
func (l *Letters) callBack(ctx context.Context, r sqlplane.Runner, uid string) (more bool, err error) {
	if err := l.write(ctx, r); err != nil {
		return false, err
	}
	list, err := l.locked(ctx, r, "redrive = ? and state = 'dead' and redrive_at is not null order by uid limit ? FOR UPDATE", uid, int64(page))
	if err != nil {
		return false, err
	}
	messages, err := l.outboxMessages(ctx, r, list)
	if err != nil {
		return false, err
	}
	for _, one := range list {
		if err := r.Append(ctx, l.statement("update once_deadletter set redrive = '', redrive_at = null where uid = ?", one.UID)); err != nil {
			return false, err
		}
		if m, ok := messages[nameOf(&one)]; ok && one.Origin == letter.OriginOutbox {
			if err := r.Append(ctx, l.statement("update once_outbox_failed set next_at = null where part = ? and id = ?", m.part, m.id)); err != nil {
				return false, err
			}
		}
	}
	return len(list) == page, nil
}

// write makes the transaction a writer before it reads. SQLite does not let a reader become a writer after another transaction has written.
func (l *Letters) write(ctx context.Context, r sqlplane.Runner) error {
	if l.db.Dialect() != sqlplane.SQLite {
		return nil
	}
	_, err := r.Exec(ctx, l.statement("update once_deadletter set attempts = attempts where uid = ''"))
	return err
}

// locked returns the letters that where chooses. With FOR UPDATE in where, it locks them.
func (l *Letters) locked(ctx context.Context, r sqlplane.Runner, where string, args ...any) ([]letter.Letter, error) {
	return collect(ctx, r, l.statement("select "+letter.ListColumns+" from once_deadletter where "+where, args...), letter.Scan)
}

// Resume continues a redrive until all of its letters are chosen or its canary has failed. Several calls of
// Resume for one redrive may run at the same time.
func (l *Letters) Resume(ctx context.Context, uid string) (Redrive, error) {
	for waits := 0; ; {
		var is step
		err := letter.Within(ctx, l.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
			is, err = l.choose(ctx, r, uid)
			return err
		})
		switch {
		case store.KindOf(err) == store.KindLost && ctx.Err() == nil: // the row of the redrive has its progress
			continue
		case err != nil:
			return Redrive{UID: uid, State: RedriveRunning}, err
		case is == stepEnd:
			return l.Progress(ctx, uid)
		// Another process tries the canary, so this process can only ask again.
		case is == stepCanary:
			waits++
			if err := pause(ctx, uid, min(time.Duration(waits)*20*time.Millisecond, time.Second)); err != nil {
				return Redrive{UID: uid, State: RedriveRunning}, err
			}
		}
	}
}

// pause waits for d. Its error says how to continue the redrive.
func pause(ctx context.Context, uid string, d time.Duration) error {
	if sleep.For(ctx, d) {
		return nil
	}
	return fmt.Errorf("deadletter: redrive %s is not complete: its first letter (the canary) was not tried yet: %w. Try: Letters.Resume, or once deadletter redrive --resume %s", uid, ctx.Err(), uid)
}
