package killstorm

import (
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/webhook"
)

// calmWebhooks is a storm of three refunds in which all went well, and what both databases have.
func calmWebhooks() (*Webhooks, hookSent, hookBooks) {
	sender, receiver := &Server{}, &Server{}
	s := NewWebhooks(WebhooksConfig{Orders: 3, Session: "s", Senders: []*Server{sender}, Receiver: receiver})
	s.kills = map[*Server]int{sender: 1, receiver: 1}
	s.fails, s.retired = "ep_fails", "old"
	s.sick.hung.Store(1)
	s.sick.failed.Store(1)
	s.forged.Store(1)
	sent := hookSent{refunds: map[string]int{"s-0": 1, "s-1": 1, "s-2": 1}, events: 3, hangsWaiting: 3, disabled: []string{"ep_fails"}}
	books := hookBooks{arrived: 5, duplicates: 1, rejected: map[string]bool{forgedPrefix + "0": true}, bookings: []hookBooking{
		{"a", hookRefundType, "s-0", 0, 1000, 9000}, {"b", hookRefundType, "s-1", 1, 1000, 5000}, {"c", hookRefundType, "s-2", 2, 1000, 3000},
		{"d", webhook.EventEndpointDisabled, "ep_fails", 0, 0, 5000},
	}}
	return s, sent, books
}

// TestWebhooksReport: each wrong number is said, and so is what the storm has missed.
func TestWebhooksReport(t *testing.T) {
	t.Parallel()
	for reason, spoil := range map[string]func(s *Webhooks, sent *hookSent, books *hookBooks, r *WebhooksReport){
		"": func(*Webhooks, *hookSent, *hookBooks, *WebhooksReport) {},
		"the sender made 3 refunds of 3, but it must have made 4": func(s *Webhooks, _ *hookSent, _ *hookBooks, _ *WebhooksReport) { s.Orders = 4 },
		"the sender has sent 2 events for 3 refunds": func(_ *Webhooks, sent *hookSent, _ *hookBooks, _ *WebhooksReport) {
			sent.events, sent.hangsWaiting = 2, 2
		},
		"1 refunds are not booked": func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) {
			books.bookings = books.bookings[1:]
		},
		"1 refunds were booked more than once": func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) {
			books.arrived++
			books.bookings = append(books.bookings, books.bookings[0])
		},
		"1 bookings of events that were not sent": func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) {
			books.arrived++
			books.bookings = append(books.bookings, hookBooking{subject: "forged-0", kind: hookRefundType})
		},
		"the receiver rejected 1 of 2 forged requests, and accepted 0": func(s *Webhooks, _ *hookSent, _ *hookBooks, _ *WebhooksReport) { s.forged.Add(1) },
		"the receiver rejected 1 of 1 forged requests, and accepted 1": func(s *Webhooks, _ *hookSent, _ *hookBooks, _ *WebhooksReport) { s.accepted.Add(1) },
		"the receiver rejected 1 genuine events":                       func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) { books.rejected["a"] = true },
		"the receiver counts 4 deliveries":                             func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) { books.arrived = 4 },
		"1 deliveries to the healthy endpoint are still waiting":       func(_ *Webhooks, sent *hookSent, _ *hookBooks, _ *WebhooksReport) { sent.healthyWaiting = 1 },
		"2 of 3 deliveries to the endpoint":                            func(_ *Webhooks, sent *hookSent, _ *hookBooks, _ *WebhooksReport) { sent.hangsWaiting = 2 },
		`the endpoints [] are disabled`:                                func(_ *Webhooks, sent *hookSent, _ *hookBooks, _ *WebhooksReport) { sent.disabled = nil },
		`the endpoints ["ep_fails" "ep_ok"]`: func(_ *Webhooks, sent *hookSent, _ *hookBooks, _ *WebhooksReport) {
			sent.disabled = append(sent.disabled, "ep_ok")
		},
		"the receiver has booked 0 notices about disabled endpoints": func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) {
			books.bookings = books.bookings[:3]
		},
		"the receiver has booked 2 notices about disabled endpoints": func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) {
			books.arrived++
			books.bookings = append(books.bookings, books.bookings[3])
		},
		`the receiver has booked 1 notices about disabled endpoints, and 0 of these notices are about`: func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) {
			books.bookings[3].subject = "ep_ok"
		},
		"this run proves nothing, because it had no kills of the receiver": func(s *Webhooks, _ *hookSent, _ *hookBooks, r *WebhooksReport) { r.ReceiverKills = 0 },
		"this run proves nothing, because it had no kills of a sender":     func(s *Webhooks, _ *hookSent, _ *hookBooks, r *WebhooksReport) { r.SenderKills = 0 },
		"this run proves nothing, because it had no forged requests": func(s *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) {
			s.forged.Store(0)
			clear(books.rejected)
		},
		"this run proves nothing, because it had no duplicates":                          func(_ *Webhooks, _ *hookSent, books *hookBooks, _ *WebhooksReport) { books.duplicates = 0 },
		"this run proves nothing, because it had no requests to the endpoint that hangs": func(s *Webhooks, _ *hookSent, _ *hookBooks, _ *WebhooksReport) { s.sick.hung.Store(0) },
		"this run proves nothing, because it had no requests to the endpoint that fails": func(s *Webhooks, _ *hookSent, _ *hookBooks, _ *WebhooksReport) { s.sick.failed.Store(0) },
		"this run proves nothing, because it had no secrets replaced":                    func(s *Webhooks, _ *hookSent, _ *hookBooks, _ *WebhooksReport) { s.retired = "" },
	} {
		s, sent, books := calmWebhooks()
		r := WebhooksReport{SenderKills: 1, ReceiverKills: 1}
		spoil(s, &sent, &books, &r)
		s.judge(&r, sent, books)
		s.Check(&r, nil)
		if r.OK != (reason == "") || reason != "" && (len(r.Reasons) != 1 || !strings.HasPrefix(r.Reasons[0], reason)) {
			t.Errorf("%q: %+v", reason, r)
		}
		if reason == "" && (r.Sent != 3 || r.Deliveries != 5 || r.Rejected != 1 || r.Applied != 3 || r.DuplicatesDiscarded != 1 || r.DisabledEndpoints != 1 || r.HealthyP99 != 2 || r.StormP99 != 8) {
			t.Errorf("%+v", r)
		}
	}
}

// TestSecretsAreFound: in a row, also of bytes, in what was logged and in the result, in each form of a secret.
func TestSecretsAreFound(t *testing.T) {
	t.Parallel()
	secret := webhook.NewSecret()
	text := strings.TrimPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "leak.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{"create table once_x (a, b)", "create table other (a)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	w := Witness{DB: db, Tables: "select name from sqlite_master where type = 'table'"}
	for _, value := range []any{secret, "a " + text + " b", key, hex.EncodeToString(key), "none"} {
		for _, statement := range []string{"delete from once_x", "insert into once_x values (1, ?)"} {
			if _, err := db.ExecContext(t.Context(), statement, []any{value}[:strings.Count(statement, "?")]...); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := w.dump(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := &Webhooks{secrets: []string{webhook.NewSecret(), secret}}
		r := WebhooksReport{}
		if s.Check(&r, rows); r.OK != (value == "none") || r.Scanned < 4 {
			t.Errorf("%v: %+v", value, r)
		}
	}
}
