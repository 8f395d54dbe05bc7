package killstorm

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
)

const (
	hooksPath     = "/hooks"
	answersLost   = 5 // of this many answers with status 200, one is lost
	slowestAnswer = 20 * time.Millisecond
)

// Results of requests in the books of a receiver.
const (
	hookArrived   = "arrived"
	hookRejected  = "rejected"
	hookDuplicate = "duplicate"
)

// HookReceiverTables are the statements that make the books of a receiver. No key keeps an event from being booked twice.
func HookReceiverTables() []string {
	return []string{
		"create table demo_arrival (event_id text not null, what text not null)",
		"create table demo_booking (event_id text not null, type text not null, subject text not null, number bigint not null, sent bigint not null, booked bigint not null)",
	}
}

// HookReceiver verifies and books webhooks. It is slow, and loses answers.
type HookReceiver struct {
	store  *sqlstore.Store
	db     *sql.DB
	box    *inbox.Inbox[*sql.Tx]
	file   string // the file with the secrets
	unsafe bool
	lost   atomic.Int64

	mu       sync.Mutex
	secrets  string
	verified http.Handler
}

// NewHookReceiver returns a receiver that reads its secrets from a file. An unsafe receiver verifies no signatures and detects no duplicates.
func NewHookReceiver(s *sqlstore.Store, db *sql.DB, file string, unsafe bool, log *slog.Logger) *HookReceiver {
	box := inbox.New(once.New(s, once.Config{}), inbox.Config{
		Consumer: "bookings", Observer: inbox.Log(log), Policy: &retry.Policy{Attempts: 1000, Base: time.Millisecond, Cap: 10 * time.Millisecond, Total: -1},
	})
	return &HookReceiver{store: s, db: db, box: box, file: file, unsafe: unsafe}
}

// ServeHTTP implements [http.Handler].
func (h *HookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != hooksPath {
		return // a health check
	}
	id := r.Header.Get(webhook.HeaderID)
	handler, err := h.handler()
	if err == nil {
		err = h.note(r.Context(), id, hookArrived)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := sleep(r.Context(), rand.N(slowestAnswer)); err != nil {
		return // the sender has disconnected
	}
	a := &answerBuffer{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(a, r)
	switch {
	case a.status == http.StatusUnauthorized:
		err = h.note(r.Context(), id, hookRejected)
	case bytes.Contains(a.body.Bytes(), []byte(`"`+inbox.Duplicate+`"`)):
		err = h.note(r.Context(), id, hookDuplicate)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case a.status == http.StatusOK && h.lost.Add(1)%answersLost == 0:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(a.status)
		_, _ = a.body.WriteTo(w) // if the connection is lost, the sender sends the request again
	}
}

// handler returns the handler for the secrets that are in the file now.
func (h *HookReceiver) handler() (http.Handler, error) {
	if h.unsafe {
		return http.HandlerFunc(h.believe), nil
	}
	text, err := os.ReadFile(h.file)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.verified == nil || string(text) != h.secrets {
		h.secrets, h.verified = string(text), webhook.Receive(h.box, webhook.Standard(strings.Fields(string(text))...), h.book)
	}
	return h.verified, nil
}

// believe books each request without a check of its signature. This is the mistake that the storm must find.
func (h *HookReceiver) believe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var tx *sql.Tx
	if err == nil {
		tx, err = h.db.BeginTx(r.Context(), nil)
	}
	if err == nil {
		if err = h.book(r.Context(), tx, message.Message{ID: r.Header.Get(webhook.HeaderID), Payload: body}); err == nil {
			err = tx.Commit()
		} else {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// book writes one booking.
func (h *HookReceiver) book(ctx context.Context, tx *sql.Tx, m message.Message) error {
	var e hookEvent
	if err := json.Unmarshal(m.Payload, &e); err != nil {
		return err
	}
	var about struct {
		hookRefund

		Endpoint string `json:"endpoint"` // only a notice about an endpoint has it
	}
	if err := json.Unmarshal(e.Data, &about); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, dialect.Text(h.store.Dialect(), "insert into demo_booking (event_id, type, subject, number, sent, booked) values (?, ?, ?, ?, ?, ?)"),
		m.ID, e.Type, about.Name+about.Endpoint, about.Number, about.Sent, time.Now().UnixMicro())
	return err
}

// note writes the result of a request to the books.
func (h *HookReceiver) note(ctx context.Context, id, what string) error {
	_, err := h.db.ExecContext(ctx, dialect.Text(h.store.Dialect(), "insert into demo_arrival (event_id, what) values (?, ?)"), id, what)
	return err
}

// answerBuffer keeps an answer, which may be lost.
type answerBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answerBuffer) Header() http.Header         { return a.header }
func (a *answerBuffer) WriteHeader(status int)      { a.status = status }
func (a *answerBuffer) Write(b []byte) (int, error) { return a.body.Write(b) }
