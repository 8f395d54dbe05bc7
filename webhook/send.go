package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Send stores events in tx, with a delivery for each endpoint of the tenant that is enabled and wants the type
// of the event. tx is the transaction of a handler, or a transaction that the user has opened. The events are
// delivered if and only if tx commits. Send copies the data.
//
// Send checks all events before it stores the first event. If the error of Send is not a [store.Error], the error
// names an invalid event. After an error that is not a [store.Error], nothing was stored, and tx can still be
// used. After a store.Error, roll tx back: no other use of tx is possible. On pgxstore the events are sent
// together with COMMIT, without an additional round trip. So on pgxstore an error of the database is returned by
// the commit of tx, and not by Send. If the ID of an event is already in use, the error is a [store.Error] with
// [sqlplane.ErrDuplicate].
//
// In a handler, pass the handler's context as ctx: the stored record of the operation then contains the IDs of
// the events, and the events contain the name of the operation.
//
// Send reads the endpoints at the isolation level of tx: at REPEATABLE READ, an endpoint that was created after
// tx began does not get the event. Send locks no row of an endpoint, with one exception: on MySQL at REPEATABLE
// READ or SERIALIZABLE, changes of endpoints wait for the end of tx.
func (h *Hooks[TX]) Send(ctx context.Context, tx TX, events ...Event) error {
	statements, err := h.cfg.statements(ctx, h.db.Dialect(), current.Of(ctx), events)
	if err != nil {
		return err
	}
	r := h.db.On(tx)
	for _, s := range statements {
		if err := r.Append(ctx, s); err != nil {
			return err
		}
	}
	h.note()
	return nil
}

// Declare is like [Hooks.Send], but adds the events to a batch. If Declare returns an error, no event was added
// to the batch. The parameter ctx is passed to Config.Trace.
func (h *Hooks[TX]) Declare(ctx context.Context, batch *once.Batch, events ...Event) error {
	statements, err := h.cfg.statements(ctx, h.db.Dialect(), current.OfBatch(batch), events)
	if err != nil {
		return err
	}
	for _, s := range statements {
		batch.Add(s)
	}
	h.note()
	return nil
}

// note tells the relays of this process that the next commit may have deliveries for them.
func (h *Hooks[TX]) note() {
	if !h.sent.Load() { // usually the flag is already set; a read lets all processors keep the cache line
		h.sent.Store(true)
	}
}

// statements returns the statements that store events. The parameter op is the operation that sends them, or
// nil outside of a handler. The record of op stores the IDs of the events, and each event stores the operation.
func (c *Config) statements(ctx context.Context, d sqlplane.Dialect, op *current.Operation, events []Event) (list []store.Statement, err error) {
	trace := ""
	if c.Trace != nil {
		trace = c.Trace(ctx)
	}
	if message.CheckText("trace", trace, message.MaxText) != nil { // a bad trace is dropped: a bug of the tracer must not lose an event
		trace = ""
	}
	var by store.ID
	if op != nil {
		by = op.ID
	}
	ids := make([]string, 0, len(events))
	// All events are checked before the first one is stored, so an invalid event changes nothing.
	for i, e := range events {
		if strings.HasPrefix(e.Type, ofPackage) {
			err = fmt.Errorf("the type %q begins with %q, which is reserved for package webhook. Try: another first word", printable.Short(e.Type), ofPackage)
		}
		if err == nil {
			e, err = c.checked(e)
		}
		if err == nil {
			ids = append(ids, e.ID)
			list, err = c.append(list, d, e, trace, by)
		}
		if err != nil {
			return nil, fmt.Errorf("webhook: event %d of %d: %w", i+1, len(events), err)
		}
	}
	if op != nil {
		op.Note(ids...)
	}
	return list, nil
}

// sendIn stores an event with r. Unlike Send, it accepts the event types of this package.
func (c *Config) sendIn(ctx context.Context, r sqlplane.Runner, d sqlplane.Dialect, e Event) error {
	e, err := c.checked(e)
	if err != nil {
		return err
	}
	list, err := c.append(nil, d, e, "", store.ID{})
	for _, s := range list {
		if err == nil {
			_, err = r.Exec(ctx, s)
		}
	}
	return err
}

// append appends the statements that store e and its deliveries. The caller has checked e.
func (c *Config) append(list []store.Statement, d sqlplane.Dialect, e Event, trace string, by store.ID) ([]store.Statement, error) {
	data, err := c.seal(e.Data, dataLabel(e.ID))
	if err != nil {
		return nil, err
	}
	event := []any{e.ID, e.Tenant, e.Type, data, c.Encrypter != nil, trace, by.Scope, by.Key}
	var texts []any
	for _, text := range wanting(e.Type) {
		texts = append(texts, text)
	}
	if d == sqlplane.PostgreSQL {
		return append(list, store.Statement{SQL: fanOut[len(texts)], Args: append(event, texts...)}), nil
	}
	wanted, this := isWanted("instr(e.types, ?) > 0", len(texts)), "v.uid = ?"
	if d == sqlplane.MySQL { // a read by uid would lock the gap before the row, and other transactions would wait in Send
		this = "v.id = last_insert_id()"
	} else {
		texts = append(texts, e.ID)
	}
	return append(list,
		store.Statement{SQL: dialect.Text(d, insertEvent+"(?, ?, ?, ?, ?, ?, ?, ?, NOW)"), Args: event},
		store.Statement{SQL: dialect.Text(d, insertDeliveries+" from once_webhook_event v join once_webhook_endpoint e on e.tenant = v.tenant where "+wanted+" and "+this), Args: texts}), nil
}

const (
	insertEvent      = "insert into once_webhook_event (uid, tenant, type, data, encrypted, trace, op_scope, op_key, created_at) values "
	insertDeliveries = "insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at) select e.id, v.id, e.part, v.created_at, 0, '', v.created_at"
)

// isWanted returns the condition that an endpoint e gets an event.
func isWanted(one string, n int) string {
	return "e.disabled_at is null and (" + one + strings.Repeat(" or "+one, n-1) + ")"
}

// fanOut has the statements of PostgreSQL, by the number of texts that match a type. One statement stores the
// event and its deliveries.
var fanOut = func() (texts [maxSegments + 2]string) {
	for n := range texts[1:] {
		texts[n+1] = "with v as (" + dialect.Text(sqlplane.PostgreSQL, insertEvent+"(?, ?, ?, ?, ?, ?, ?, ?, NOW)") + " returning id, created_at)\n " + insertDeliveries +
			" from v, once_webhook_endpoint e where e.tenant = $2 and " + numbered(isWanted("strpos(e.types, ?) > 0", n+1), 9)
	}
	return texts
}()

// numbered numbers the placeholders of a text, beginning with first.
func numbered(text string, first int) string {
	for strings.Contains(text, "?") {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", first), 1)
		first++
	}
	return text
}

// checked returns e as the database stores it, or an error that names the wrong field.
func (c *Config) checked(e Event) (Event, error) {
	if e.ID == "" {
		e.ID = newID("msg_")
	}
	switch err := checkTenant(e.Tenant); {
	case err != nil:
		return e, err
	case !isID(e.ID):
		return e, fmt.Errorf("the event ID %q is not valid. Try: at most %d letters, digits, _ and -, or no ID", printable.Short(e.ID), maxID)
	case len(e.Data) > c.MaxData && !strings.HasPrefix(e.Type, ofPackage):
		return e, fmt.Errorf("the data has %d bytes, and at most %d are allowed. Try: a reference to the data, or a larger Config.MaxData", len(e.Data), c.MaxData)
	}
	return e, checkType(e.Type)
}

const maxID = 64

// isID reports whether s can be an ID. IDs are part of signed texts and URLs, so only a few characters are
// allowed.
func isID(s string) bool { return len(s) <= maxID && isSegment(s) }

// newID returns a new ID. The IDs that one process makes are ascending.
func newID(prefix string) string { return prefix + strings.ReplaceAll(once.NewKey(), "-", "") }

func checkTenant(tenant string) error {
	if tenant == "" {
		return errors.New("the tenant is empty. Try: the name of the customer who owns the endpoints, or one fixed name if there is only one customer")
	}
	return message.CheckText("tenant", tenant, message.MaxText)
}
