package killstorm

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// EventsReport is the result of a storm over events. Its JSON form is a contract with scripts.
type EventsReport struct {
	Events              int  `json:"events"` // that were committed together with the change that they report
	Deliveries          int  `json:"deliveries"`
	DuplicateDeliveries int  `json:"duplicate_deliveries"`
	Lost                int  `json:"lost"`
	OutOfOrder          int  `json:"out_of_order"`
	RelayKills          int  `json:"relay_kills"`
	BrokerKills         int  `json:"broker_kills"`
	ServiceKills        int  `json:"service_kills"`
	ReceiverKills       int  `json:"receiver_kills"`
	Applied             int  `json:"applied"`              // events that the receiver has booked
	DuplicatesDiscarded int  `json:"duplicates_discarded"` // deliveries of events that were booked before
	Parked              int  `json:"parked"`               // events that came before an earlier one of their key
	StaleIgnored        int  `json:"stale_ignored"`        // deliveries of a version that was not the newest
	DeadLettered        int  `json:"dead_lettered"`
	Redriven            int  `json:"redriven"` // dead letters that were applied in the end
	OK                  bool `json:"ok"`

	EventsDetails `json:"-"`
}

// EventsDetails are for people.
type EventsDetails struct {
	Took     time.Duration
	Orders   int
	Clients  int
	Relays   int
	Requests int
	Keys     int // keys whose events have an order
	Phantoms int // events about something that is not in the database

	Repeated  int // deliveries to the receiver that were repeated on purpose,
	Reordered int // and deliveries that changed places
	Behind    int // events that waited for the dead letter of their key

	Reasons []string // why it is not OK
}

// arrivals counts the deliveries of a storm. It belongs to a consumer that discards known events.
type arrivals struct {
	seen  map[string]int   // deliveries, by event
	last  map[string]int64 // number of the latest event that has come, by topic and key
	total int
	late  int // events that came after a later one of their key
}

func newArrivals() arrivals { return arrivals{seen: map[string]int{}, last: map[string]int64{}} }

// add counts one delivery of an event, with its number within its key.
func (a *arrivals) add(event, key string, seq int64) {
	a.total++
	a.seen[event]++
	if a.seen[event] > 1 {
		return
	}
	if seq != a.last[key]+1 {
		a.late++
	}
	a.last[key] = max(a.last[key], seq)
}

// missing returns how many of the wanted events have not arrived.
func (a *arrivals) missing(wanted map[string]bool) (n int) {
	for event := range wanted {
		if a.seen[event] == 0 {
			n++
		}
	}
	return n
}

// received is the final state of the receiver.
type received struct {
	applied

	deadLettered, redriven int
	unbalanced             int // charges
	outdated               int // charges
}

// report compares the arrived and booked events with the database.
func (s *Events) report(wanted map[string]bool, got received) EventsReport {
	s.consumer.mu.Lock()
	defer s.consumer.mu.Unlock()
	arrived := &s.consumer.got
	r := EventsReport{
		Events: len(wanted), Deliveries: arrived.total, DuplicateDeliveries: arrived.total - len(arrived.seen), Lost: arrived.missing(wanted), OutOfOrder: arrived.late,
		BrokerKills: s.kills[s.Broker], ServiceKills: s.kills[s.Service], ReceiverKills: s.kills[s.Receiver],
		Applied: got.rows, DuplicatesDiscarded: len(s.told.discarded), Parked: len(s.told.parked),
		StaleIgnored: s.told.count(latestConsumer, "stale"), DeadLettered: got.deadLettered, Redriven: got.redriven,
		EventsDetails: EventsDetails{
			Orders: s.Orders, Clients: s.Clients, Relays: len(s.Relays), Requests: int(s.sent.Load()), Keys: len(arrived.last),
			Repeated: s.forwarder.repeated, Reordered: s.forwarder.reordered, Behind: s.behind,
		},
	}
	for _, relay := range s.Relays {
		r.RelayKills += s.kills[relay]
	}
	for event := range arrived.seen {
		if !wanted[event] {
			r.Phantoms++
		}
	}
	r.judge(s.EventsConfig, got)
	return r
}

// judge fills in OK and the reasons. A storm in which an interesting fault did not happen proves nothing, so it is not OK either.
func (r *EventsReport) judge(cfg EventsConfig, got received) {
	fail := func(n int, sentence string) {
		if n > 0 {
			r.Reasons = append(r.Reasons, fmt.Sprintf("%d %s", n, sentence))
		}
	}
	fail(r.Lost, "events lost")
	fail(r.OutOfOrder, "events out of order")
	fail(r.Phantoms, "events of transactions that were not committed")
	fail(got.twice, "events booked again")
	fail(got.missing, "events not booked")
	fail(got.late, "events booked out of order")
	fail(got.phantoms, "bookings of transactions that were not committed")
	fail(got.unbalanced, "charges whose bookings have a wrong sum")
	fail(got.outdated, "charges whose newest event the receiver has not booked")
	fail(got.deadLettered-got.redriven, "dead letters that were not applied")
	vacuous := func(n, want int, sentence string) {
		if n < want {
			r.Reasons = append(r.Reasons, fmt.Sprintf("this run proves nothing: %d %s, but at least %d are necessary. Try: use a larger --ops", n, sentence, want))
		}
	}
	vacuous(r.Events, cfg.Orders, "events")
	vacuous(r.RelayKills, cfg.Kills*len(cfg.Relays), "kills of relays")
	vacuous(r.BrokerKills, cfg.Kills, "kills of the broker")
	vacuous(r.ServiceKills, cfg.Kills, "kills of the service")
	vacuous(r.ReceiverKills, cfg.Kills, "kills of the receiver")
	vacuous(r.DuplicatesDiscarded, 1, "duplicates discarded")
	vacuous(r.DeadLettered, 1, "dead letters")
	if cfg.Orders > charges { // with fewer refunds each charge has only one, and one refund cannot be out of order
		vacuous(r.Reordered, 1, "deliveries out of order")
		vacuous(r.Parked, 1, "events parked")
		vacuous(r.StaleIgnored, 1, "old versions ignored")
	}
	r.OK = len(r.Reasons) == 0
}

// events returns the events that must have happened: it reads the business tables, and not the outbox.
func (w Witness) events(ctx context.Context, tenant string) (map[string]bool, error) {
	wanted := map[string]bool{}
	for _, source := range []struct{ event, sql string }{
		{"charge.succeeded", "select id from charge where tenant = $1"},
		{"refund.succeeded", "select id from refund where tenant = $1"},
		{"refund.voided", "select id from refund where tenant = $1 and status = 'voided'"},
	} {
		query, args := w.about(tenant, source.sql)
		rows, err := w.DB.QueryContext(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		if err := want(wanted, source.event, rows); err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

// waiting returns how many events of storms are in the outbox.
func (w Witness) waiting(ctx context.Context) (n int, err error) {
	err = w.DB.QueryRowContext(ctx, "select count(*) from once_outbox where topic in ('"+strings.Join(EventSubjects, "', '")+"')").Scan(&n)
	return n, err
}

// want adds an event of this kind to wanted for each ID in rows.
func want(wanted map[string]bool, event string, rows *sql.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		wanted[event+" "+id] = true
	}
	return rows.Err()
}
