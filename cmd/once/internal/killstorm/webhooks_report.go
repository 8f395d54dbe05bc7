package killstorm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// WebhooksReport is the result of a storm over webhooks. Its JSON form is a contract with scripts.
type WebhooksReport struct {
	Sent                int   `json:"sent"`       // events that are committed with a refund
	Deliveries          int   `json:"deliveries"` // requests of the sender that have reached the receiver
	Rejected            int   `json:"rejected"`   // forged requests
	Applied             int   `json:"applied"`    // bookings of refunds
	DuplicatesDiscarded int   `json:"duplicates_discarded"`
	DisabledEndpoints   int   `json:"disabled_endpoints"` // endpoints whose disabling was notified to the receiver
	HealthyP99          int64 `json:"healthy_p99_ms"`     // from the commit to the booking, while nothing is killed
	OK                  bool  `json:"ok"`

	StormP99      int64         `json:"-"` // likewise, while processes are killed
	Hung          int           `json:"-"` // requests to the endpoint that hangs
	Failed        int           `json:"-"` // requests to the endpoint that fails
	SenderKills   int           `json:"-"`
	ReceiverKills int           `json:"-"`
	Nodes         int           `json:"-"`
	Scanned       int           `json:"-"` // bytes that were searched for secrets
	Took          time.Duration `json:"-"`
	Reasons       []string      `json:"-"`
}

// hookBooks is what the books of the receiver contain.
type hookBooks struct {
	arrived    int             // requests of the sender
	rejected   map[string]bool // by request ID
	duplicates int
	bookings   []hookBooking
}

type hookBooking struct {
	event, kind, subject string
	number               int
	sent, booked         int64
}

// hookSent is the content of the sender's database.
type hookSent struct {
	refunds        map[string]int // by name
	events         int
	healthyWaiting int
	hangsWaiting   int
	disabled       []string // IDs of endpoints
}

// count compares the books of the receiver with the sent events.
func (s *Webhooks) count(ctx context.Context, r *WebhooksReport) error {
	books, err := s.Books.hookBooks(ctx)
	if err != nil {
		return fmt.Errorf("the check of the database has failed: %w", err)
	}
	sent, err := s.readSent(ctx)
	if err != nil {
		return fmt.Errorf("the check of the database has failed: %w", err)
	}
	for p, n := range s.kills {
		if p == s.Receiver {
			r.ReceiverKills += n
		} else {
			r.SenderKills += n
		}
	}
	s.judge(r, sent, books)
	if err := s.scan(ctx, r); err != nil {
		return err
	}
	r.OK = len(r.Reasons) == 0
	return nil
}

func (r *WebhooksReport) complainf(wrong bool, format string, args ...any) {
	if wrong {
		r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...))
	}
}

// judge fills in the counts, and adds the reasons why the result is not OK.
func (s *Webhooks) judge(r *WebhooksReport, sent hookSent, books hookBooks) {
	r.Nodes, r.Hung, r.Failed = len(s.Senders), int(s.sick.hung.Load()), int(s.sick.failed.Load())
	r.Sent, r.Deliveries, r.DuplicatesDiscarded = sent.events, books.arrived, books.duplicates
	made := 0
	for _, n := range sent.refunds {
		made += n
	}
	r.complainf(made != s.Orders || len(sent.refunds) != s.Orders, "the sender made %d refunds of %d, but it must have made %d", made, len(sent.refunds), s.Orders)
	r.complainf(sent.events != made, "the sender has sent %d events for %d refunds", sent.events, made)
	s.judgeBookings(r, sent, books.bookings)
	genuine := 0
	for id := range books.rejected {
		if strings.HasPrefix(id, forgedPrefix) {
			r.Rejected++
		} else {
			genuine++
		}
	}
	forged := int(s.forged.Load())
	r.complainf(r.Rejected != forged || s.accepted.Load() > 0, "the receiver rejected %d of %d forged requests, and accepted %d", r.Rejected, forged, s.accepted.Load())
	r.complainf(genuine > 0, "the receiver rejected %d genuine events of the sender", genuine)
	r.complainf(r.Deliveries < r.Applied+r.DisabledEndpoints+r.DuplicatesDiscarded, "the receiver counts %d deliveries, which is less than the sum of bookings, duplicates and rejections", r.Deliveries)
	r.complainf(sent.healthyWaiting > 0, "%d deliveries to the healthy endpoint are still waiting", sent.healthyWaiting)
	r.complainf(sent.hangsWaiting != sent.events, "%d of %d deliveries to the endpoint that hangs are still waiting: the other deliveries are lost", sent.hangsWaiting, sent.events)
	r.complainf(!slices.Equal(sent.disabled, []string{s.fails}), "the endpoints %q are disabled, but %q must be disabled", sent.disabled, s.fails)
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.ReceiverKills, "kills of the receiver"}, {r.SenderKills, "kills of a sender"}, {forged, "forged requests"}, {r.DuplicatesDiscarded, "duplicates"},
		{r.Hung, "requests to the endpoint that hangs"}, {r.Failed, "requests to the endpoint that fails"}, {len(s.retired), "secrets replaced"},
	} {
		r.complainf(c.n == 0, "this run proves nothing, because it had no %s. Try: use a larger --ops", c.what)
	}
}

// judgeBookings checks that each refund is booked once, and also the notice about the disabled endpoint.
func (s *Webhooks) judgeBookings(r *WebhooksReport, sent hookSent, list []hookBooking) {
	booked := map[string]int{}
	var calm, stormy []int64
	phantoms, notices := 0, map[string]int{}
	for _, b := range list {
		switch {
		case b.kind != hookRefundType:
			r.DisabledEndpoints++
			notices[b.subject]++
			continue
		case sent.refunds[b.subject] == 0:
			phantoms++
		case booked[b.subject] == 0 && b.number < s.underFire():
			stormy = append(stormy, b.booked-b.sent)
		case booked[b.subject] == 0:
			calm = append(calm, b.booked-b.sent)
		}
		r.Applied++
		booked[b.subject]++
	}
	lost, twice := 0, 0
	for name := range sent.refunds {
		lost += max(0, 1-booked[name])
		twice += max(0, booked[name]-1)
	}
	r.HealthyP99, r.StormP99 = p99(calm), p99(stormy)
	r.complainf(lost > 0, "%d refunds are not booked", lost)
	r.complainf(twice > 0, "%d refunds were booked more than once", twice)
	r.complainf(phantoms > 0, "%d bookings of events that were not sent", phantoms)
	r.complainf(r.DisabledEndpoints != 1 || notices[s.fails] != 1, "the receiver has booked %d notices about disabled endpoints, and %d of these notices are about %q; the receiver must book exactly one notice", r.DisabledEndpoints, notices[s.fails], s.fails)
}

// p99 returns the 99th percentile of times in microseconds, in milliseconds.
func p99(list []int64) int64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)*99-1)/100] / 1000
}

// hookBooks reads the books of the receiver.
func (w Witness) hookBooks(ctx context.Context) (b hookBooks, err error) {
	b.rejected = map[string]bool{}
	err = w.each(ctx, "select event_id, what from demo_arrival", func(row func(...any) error) error {
		var id, what string
		err := row(&id, &what)
		switch {
		case what == hookRejected:
			b.rejected[id] = true
		case what == hookDuplicate:
			b.duplicates++
		case !strings.HasPrefix(id, forgedPrefix):
			b.arrived++
		}
		return err
	})
	if err != nil {
		return b, err
	}
	err = w.each(ctx, "select event_id, type, subject, number, sent, booked from demo_booking", func(row func(...any) error) error {
		var one hookBooking
		err := row(&one.event, &one.kind, &one.subject, &one.number, &one.sent, &one.booked)
		b.bookings = append(b.bookings, one)
		return err
	})
	return b, err
}

// readSent reads the sent events.
func (s *Webhooks) readSent(ctx context.Context) (sent hookSent, err error) {
	sent.refunds = map[string]int{}
	query, args := s.Sent.about(s.Session, "select name from demo_refund where tenant = $1")
	err = s.Sent.each(ctx, query, func(row func(...any) error) error {
		var name string
		err := row(&name)
		sent.refunds[name]++
		return err
	}, args...)
	if err == nil {
		sent.events, err = s.Sent.number(ctx, s.Session, "select count(*) from once_webhook_event where tenant = $1 and type = '"+hookRefundType+"'")
	}
	if err == nil {
		sent.healthyWaiting, err = s.waiting(ctx, s.healthy)
	}
	if err == nil {
		sent.hangsWaiting, err = s.waiting(ctx, s.hangs)
	}
	if err == nil {
		query, args = s.Sent.about(s.Session, "select uid from once_webhook_endpoint where tenant = $1 and disabled_at is not null")
		err = s.Sent.each(ctx, query, func(row func(...any) error) error {
			var id string
			err := row(&id)
			sent.disabled = append(sent.disabled, id)
			return err
		}, args...)
	}
	return sent, err
}

// each calls fn for each row of a query.
func (w Witness) each(ctx context.Context, query string, fn func(row func(...any) error) error, args ...any) error {
	rows, err := w.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan searches the rows of both databases, and the output of the processes, for secrets of endpoints.
func (s *Webhooks) scan(ctx context.Context, r *WebhooksReport) error {
	sent, err1 := s.Sent.dump(ctx)
	books, err2 := s.Books.dump(ctx)
	for _, err := range []error{err1, err2} {
		if err != nil {
			return fmt.Errorf("the check of the database has failed: %w", err)
		}
	}
	s.search(r, map[string][]byte{"rows of the sender": sent, "rows of the receiver": books, "output of the processes": s.logged.bytes()})
	r.complainf(!bytes.Contains(sent, []byte(s.healthy)) || !bytes.Contains(books, []byte(s.nameOf(0))) || len(s.secrets) < 4, "this run proves nothing, because the search for secrets has found no rows to search")
	return nil
}

// search looks in texts for secrets, in each form in which they are sent or stored.
func (s *Webhooks) search(r *WebhooksReport, texts map[string][]byte) {
	for where, text := range texts {
		r.Scanned += len(text)
		for _, secret := range s.secrets {
			r.complainf(slices.ContainsFunc(formsOf(secret), func(form []byte) bool { return bytes.Contains(text, form) }), "a secret of an endpoint is in the %s", where)
		}
	}
}

// Check looks for secrets in a text about the storm.
func (s *Webhooks) Check(r *WebhooksReport, text []byte) {
	s.search(r, map[string][]byte{"result": text})
	r.OK = len(r.Reasons) == 0
}

// formsOf returns the forms of a secret: its text without "whsec_", its bytes, and its bytes in hexadecimal.
func formsOf(secret string) (forms [][]byte) {
	_, text, _ := strings.Cut(secret, "_")
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < 16 {
		return nil
	}
	return [][]byte{[]byte(text), key, []byte(hex.EncodeToString(key))}
}

// dump returns all rows of the tables of once and of the demo.
func (w Witness) dump(ctx context.Context) (text []byte, err error) {
	var tables []string
	err = w.each(ctx, w.Tables, func(row func(...any) error) error {
		var name string
		err := row(&name)
		if strings.HasPrefix(name, "once_") || strings.HasPrefix(name, "demo_") {
			tables = append(tables, name)
		}
		return err
	})
	for _, table := range tables {
		if err == nil {
			text, err = w.appendRows(ctx, text, table)
		}
	}
	return text, err
}

func (w Witness) appendRows(ctx context.Context, text []byte, table string) ([]byte, error) {
	rows, err := w.DB.QueryContext(ctx, "select * from "+table) //nolint:gosec // the name of a table cannot be an argument
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for _, v := range values {
			if b, ok := v.([]byte); ok {
				text = append(text, b...)
			} else {
				text = fmt.Append(text, v)
			}
			text = append(text, '\n')
		}
	}
	return text, rows.Err()
}

// secretLog keeps the output of processes.
type secretLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *secretLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *secretLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}
