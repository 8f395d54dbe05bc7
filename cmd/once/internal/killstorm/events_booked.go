package killstorm

import (
	"context"
	"fmt"
	"strings"
)

// booking is one booking of the receiver.
type booking struct {
	event      string // type and ID of the reported object, in the form of [Witness.events]
	id, source string // of the event
	key        string // topic and charge
	place, seq int64
	at         string
}

// bookings returns the bookings of the receiver: for each key in the order of booking.
func (w Witness) bookings(ctx context.Context, tenant string) (list []booking, err error) {
	query, args := w.about(tenant, `select event_type, subject, event_id, source, topic, charge_id, place, seq, booked_at from booking
		where tenant = $1 order by charge_id, topic, place, booked_at`)
	rows, err := w.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b booking
		var kind, subject, topic, charge string
		if err := rows.Scan(&kind, &subject, &b.id, &b.source, &topic, &charge, &b.place, &b.seq, &b.at); err != nil {
			return nil, err
		}
		b.event, b.key = kind+" "+subject, topic+" "+charge
		list = append(list, b)
	}
	return list, rows.Err()
}

// applied is the result of comparing the bookings.
type applied struct {
	rows     int // bookings
	twice    int // bookings of an event that was booked before
	missing  int // events without a booking
	phantoms int // bookings of events that were never committed
	late     int // bookings that were made before an earlier event of their key
}

// check compares bookings with the committed events.
func check(list []booking, wanted map[string]bool) (a applied) {
	a.rows = len(list)
	seen, last := map[string]bool{}, map[string]int64{}
	for _, b := range list {
		switch {
		case seen[b.event]:
			a.twice++
		case !wanted[b.event]:
			a.phantoms++
		case b.seq != last[b.key]+1 || b.place != b.seq:
			a.late++
		}
		seen[b.event] = true
		last[b.key] = max(last[b.key], b.seq)
	}
	for event := range wanted {
		if !seen[event] {
			a.missing++
		}
	}
	return a
}

// booked returns the number of bookings.
func (w Witness) booked(ctx context.Context, tenant string) (n int, err error) {
	return w.number(ctx, tenant, "select count(*) from booking where tenant = $1")
}

// unbalanced returns the number of charges whose bookings do not have the sum of their refunds.
func (w Witness) unbalanced(ctx context.Context, tenant string) (wrong int, err error) {
	return w.number(ctx, tenant, `select count(*) from charge c where c.tenant = $1 and c.refunded <> (
		select coalesce(sum(case b.event_type when 'refund.succeeded' then b.amount when 'refund.voided' then -b.amount else 0 end), 0)
		from booking b where b.tenant = c.tenant and b.charge_id = c.id)`)
}

// outdated returns the number of charges for which the receiver does not have the newest refund event.
func (w Witness) outdated(ctx context.Context, tenant string) (n int, err error) {
	return w.number(ctx, tenant, `select count(*) from (
			select charge_id, max(seq) as seq from booking where tenant = $1 and topic = 'refunds' group by charge_id
		) newest where not exists (
			select 1 from latest_refund l join booking b on b.tenant = l.tenant and b.charge_id = l.charge_id and b.topic = 'refunds'
				and b.seq = l.seq and b.event_type = l.event_type and b.subject = l.subject
			where l.tenant = $1 and l.charge_id = newest.charge_id and l.seq = newest.seq)`)
}

// parked reports whether the receiver has parked an event because an earlier one has not come.
func (w Witness) parked(ctx context.Context, event string) (bool, error) {
	query := "select count(*) from once_inbox_parked where event_id = $1"
	if w.Question {
		query = strings.Replace(query, "$1", "?", 1)
	}
	n := 0
	err := w.DB.QueryRowContext(ctx, query, event).Scan(&n)
	return n > 0, err
}

func (w Witness) number(ctx context.Context, tenant, query string) (n int, err error) {
	query, args := w.about(tenant, query)
	if err := w.DB.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("the check of the database has failed: %w", err)
	}
	return n, nil
}
