package inbox

import (
	"context"
	"strconv"
	"strings"

	"github.com/oncelib/once/store/sqlplane"
)

// Some senders give an event a new ID when they send it again. With Config.ReportSameBody, the hash of each applied payload is stored with the
// message's ID, in the transaction of the message. After the commit the other IDs of the same hash are looked up.

// noteBodies stores the hashes of the payloads that are applied in a transaction.
func (in *Inbox[TX]) noteBodies(ctx context.Context, r sqlplane.Runner, items ...*item) error {
	for _, it := range in.withBody(items) {
		s := in.statement("insert into once_inbox_body (consumer, source, payload_hash, event_id, applied_at) values (?, ?, ?, ?, NOW) KEEP(event_id)",
			in.cfg.Consumer, it.m.Source, it.hash, it.m.ID)
		if err := r.Append(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// withBody returns the applied items whose payload hashes are stored for Config.ReportSameBody.
func (in *Inbox[TX]) withBody(items []*item) (list []*item) {
	if !in.cfg.ReportSameBody {
		return nil
	}
	for _, it := range items {
		// Payloads without content are all equal, so their hashes would always match.
		if it.outcome == Applied && it.err == nil && len(it.m.Payload) > 0 {
			list = append(list, it)
		}
	}
	return list
}

// tellSameBodies tells the observer which items have the same payload as another message. The caller calls it
// after the commit of the items.
func (in *Inbox[TX]) tellSameBodies(ctx context.Context, items ...*item) {
	const most = 32 // in one statement
	for rest := in.withBody(items); len(rest) > 0; {
		n := min(len(rest), most)
		if err := in.tellSome(ctx, rest[:n]); err != nil {
			// When the caller ends, the look-up is cut off. The report is lost, but the database has not failed.
			if ctx.Err() == nil {
				in.tell(ctx, Event{Type: EventDatabase, Err: err})
			}
			return
		}
		rest = rest[n:]
	}
}

// tellSome looks up the hashes of some items in one statement, and reports each hash that another ID also has.
func (in *Inbox[TX]) tellSome(ctx context.Context, items []*item) error {
	const other = "(select b.event_id from once_inbox_body b where b.consumer = ? and b.source = ? and b.payload_hash = ? and b.event_id <> ? order by b.event_id limit 1)"
	var parts []string
	var args []any
	for i, it := range items {
		parts = append(parts, "select "+strconv.Itoa(i)+", "+other)
		args = append(args, in.cfg.Consumer, it.m.Source, it.hash, it.m.ID)
	}
	others := make(map[int]string)
	err := in.db.Pool().Query(ctx, in.statement(strings.Join(parts, " union all "), args...), func(row sqlplane.Row) error {
		var i int
		var id *string
		err := row.Scan(&i, &id)
		// The sub-select returns null if no other message has this payload.
		if id != nil {
			others[i] = *id
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, it := range items {
		if id, found := others[i]; found {
			in.tell(ctx, Event{Type: EventSameBody, Message: it.m, From: StateApplied, To: StateApplied, SameAs: id})
		}
	}
	return nil
}

// sweepBodies deletes stored payload hashes that are older than the retention.
func (in *Inbox[TX]) sweepBodies(ctx context.Context) error {
	query := `delete from once_inbox_body where (consumer, source, payload_hash, event_id) in (
 select consumer, source, payload_hash, event_id from once_inbox_body where consumer = ? and source = ? and applied_at <= AGO(?) order by applied_at limit ? FOR UPDATE SKIP LOCKED)`
	// MySQL allows no limit in a sub-select with "in".
	if in.db.Dialect() == sqlplane.MySQL {
		query = "delete from once_inbox_body where consumer = ? and source = ? and applied_at <= AGO(?) order by applied_at limit ?"
	}
	return in.sweepSources(ctx, "once_inbox_body", query)
}
