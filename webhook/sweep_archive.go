package webhook

import (
	"context"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/aged"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// age deletes the rows whose number is less than below and whose time is before since, and returns how many
// rows it has deleted. An archive, if it is set, receives the rows first.
func (w sweeper) age(ctx context.Context, t aged.Table, below int64, since time.Time, retain time.Duration, archive aged.Archive) (removed int64, err error) {
	old := dialect.StoredTime(w.db.Dialect(), since)
	if archive == nil {
		return w.removeOld(ctx, t.Name, "id", t.At, old, "id < ?", below)
	}
	s := aged.Selection{Order: "id", Since: since, Keep: retain, Old: aged.Condition{Text: t.At + " < ?", Args: []any{old}}}
	for after := any(int64(-1)); ; {
		began := time.Now()
		// The time is not a condition of this read: it would make PostgreSQL expect few rows and read the whole
		// table.
		s.Where = aged.Condition{Text: "id > ? and id < ?", Args: []any{after, below}}
		n, last, more, err := aged.Some(ctx, w.db, t, s, archive)
		removed += n
		if err != nil || !more {
			return removed, err
		}
		after = last.Args[0]
		if !sleep.For(ctx, time.Since(began)) {
			return removed, ctx.Err()
		}
	}
}

// archivedEvents is the table of events for an archive, under their tenant and the ID that receivers see.
var archivedEvents = aged.Table{
	Name: "once_webhook_event", At: "created_at", Is: "id = ?",
	Columns: "id, uid, tenant, type, data, encrypted, created_at, trace, op_scope, op_key",
	Read: func(row sqlplane.Row) (aged.Row, error) {
		var c archivedEvent
		err := row.Scan(&c.ID, &c.UID, &c.Tenant, &c.Type, &c.Data, &c.Encrypted, (*dialect.Time)(&c.CreatedAt), &c.Trace, &c.OpScope, &c.OpKey)
		return aged.Row{ID: store.ID{Scope: c.Tenant, Key: c.UID}, At: c.CreatedAt, Args: []any{c.ID}, Columns: c, Bytes: len(c.Data)}, err
	},
}

// archivedEvent is a row of once_webhook_event in an archive. Its fields are the columns.
type archivedEvent struct {
	ID        int64     `json:"id"`
	UID       string    `json:"uid"`
	Tenant    string    `json:"tenant"`
	Type      string    `json:"type"`
	Data      []byte    `json:"data,omitempty"`
	Encrypted bool      `json:"encrypted"` // data
	CreatedAt time.Time `json:"created_at"`
	Trace     string    `json:"trace,omitempty"`
	OpScope   string    `json:"op_scope,omitempty"`
	OpKey     string    `json:"op_key,omitempty"`
}

// archivedAttempts is the table of attempts for an archive, under the number of their event. The event is
// archived earlier.
var archivedAttempts = aged.Table{
	Name: "once_webhook_attempt", At: "at", Is: "id = ?",
	Columns: "id, endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host",
	Read: func(row sqlplane.Row) (aged.Row, error) {
		var c archivedAttempt
		err := row.Scan(&c.ID, &c.Endpoint, &c.Event, (*dialect.Time)(&c.At), &c.Micros, &c.Status, &c.Error, &c.Size, &c.Answer, &c.Encrypted, &c.Cause, &c.Host)
		return aged.Row{ID: store.ID{Key: strconv.FormatInt(c.Event, 10)}, At: c.At, Args: []any{c.ID}, Columns: c, Bytes: len(c.Answer)}, err
	},
}

// archivedAttempt is a row of once_webhook_attempt in an archive. Its fields are the columns.
type archivedAttempt struct {
	ID        int64     `json:"id"`
	Endpoint  int64     `json:"endpoint"`
	Event     int64     `json:"event"` // id of once_webhook_event
	At        time.Time `json:"at"`
	Micros    int64     `json:"micros"`
	Status    int       `json:"status"`
	Error     string    `json:"error,omitempty"`
	Size      int64     `json:"size"`
	Answer    []byte    `json:"answer,omitempty"`
	Encrypted bool      `json:"encrypted"` // answer
	Cause     string    `json:"cause,omitempty"`
	Host      string    `json:"host,omitempty"`
}
