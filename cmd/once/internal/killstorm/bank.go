package killstorm

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/sqlstore"
)

// transfer is the request of a client to the first bank.
type transfer struct {
	Name    string `json:"name"`
	Number  int    `json:"number"` // chooses the fault of its requests
	Cents   int64  `json:"cents"`
	Refused string `json:"refused"` // the step that says no; "" if all steps say yes
	Repeats bool   `json:"repeats"` // an unanswered deposit is repeated, and not cancelled
}

// Paths of the two banks. The clearing house forwards requests with the paths of the second bank.
const (
	transfersPath = "/transfers"
	depositsPath  = "/deposits"
	undosPath     = depositsPath + "/undo"
)

// BankTables are the statements that make the table of a bank. No key keeps an entry from being written twice.
func BankTables() []string {
	return []string{"create table if not exists demo_entry (transfer varchar(64) not null, what varchar(16) not null, cents bigint not null)"}
}

const (
	sagaTries    = 1000 // a killed process restarts: no transfer gets stuck because of a kill
	bankPatience = 500 * time.Millisecond
)

// Bank is the first bank: it sends transfers to the second one, through a clearing house. Each is a saga.
type Bank struct {
	runner    *saga.Runner[*sql.Tx]
	transfers *saga.Definition[transfer, string]
	session   string
	http.Handler
}

// NewBank returns a node of the first bank. clearing is the address of the clearing house, and session names the transfers of this storm.
func NewBank(s *sqlstore.Store, clearing, session string, log *slog.Logger) *Bank {
	entry := func(ctx context.Context, tx *sql.Tx, t transfer, what string, cents int64) error {
		return write(ctx, s, tx, t, what, cents)
	}
	withdraw := saga.Tx("withdraw", func(ctx context.Context, tx *sql.Tx, t transfer) (string, error) {
		return t.Name, errors.Join(entry(ctx, tx, t, "withdraw", -t.Cents), t.refusal("withdraw"))
	}).Undo(func(ctx context.Context, tx *sql.Tx, t transfer, _ string) error {
		return entry(ctx, tx, t, "put back", t.Cents)
	})
	ask := func(ctx context.Context, key string, t transfer) (deposit, error) {
		return askClearing(ctx, clearing+depositsPath, keyHeader, key, t)
	}
	cancel := func(ctx context.Context, key string, t transfer) error {
		_, err := askClearing(ctx, clearing+undosPath, "Once-Undoes", key, t)
		return err
	}
	once1 := saga.Call("deposit", ask).Attempts(sagaTries).Cancel(cancel)
	again := saga.Call("deposit again", ask).SafeToRepeat().Attempts(sagaTries).Cancel(cancel)
	confirm := saga.Tx("confirm", func(ctx context.Context, tx *sql.Tx, t transfer) (string, error) {
		return "confirmed " + t.Name, errors.Join(entry(ctx, tx, t, "confirm", 0), t.refusal("confirm"))
	}).Last()
	b := &Bank{session: session}
	b.transfers = saga.New("transfer", func(ctx saga.Context, t transfer) (string, error) {
		if _, err := withdraw.Do(ctx, t); err != nil {
			return "", err
		}
		step := once1
		if t.Repeats {
			step = again
		}
		if _, err := step.Do(ctx, t); err != nil {
			return "", err
		}
		return confirm.Do(ctx, t)
	}, withdraw, once1, again, confirm)
	b.runner = saga.NewRunner(s, saga.Config{
		TTL: leaseTTL, Attempts: sagaTries, UndoAttempts: sagaTries, Backoff: 20 * time.Millisecond, MaxBackoff: completeEach, Every: completeEach, Observer: saga.Log(log),
	}, b.transfers)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+transfersPath, b.serve)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	b.Handler = mux
	return b
}

// Run completes the transfers of nodes that were killed, until ctx ends.
func (b *Bank) Run(ctx context.Context) error { return b.runner.Run(ctx) }

// serve makes a transfer, or answers with the outcome of one that was made.
func (b *Bank) serve(w http.ResponseWriter, r *http.Request) {
	var t transfer
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	receipt, err := saga.Do(r.Context(), b.runner, b.transfers, saga.ID{Tenant: b.session, Key: t.Name}, t)
	var no *once.Failure
	switch {
	case err == nil:
		_, _ = io.WriteString(w, receipt) // after a lost connection the client asks again
	case errors.As(err, &no):
		http.Error(w, no.Code, http.StatusUnprocessableEntity)
	case errors.Is(err, saga.ErrStuck):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// refusal returns the error of a transfer that one of its steps has refused.
func (t transfer) refusal(step string) error {
	if t.Refused == step {
		return &once.Failure{Code: step + "_refused"}
	}
	return nil
}

func write(ctx context.Context, s *sqlstore.Store, tx *sql.Tx, t transfer, what string, cents int64) error {
	_, err := tx.ExecContext(ctx, dialect.Text(s.Dialect(), "insert into demo_entry (transfer, what, cents) values (?, ?, ?)"), t.Name, what, cents)
	return err
}

// deposit is the answer of the second bank.
type deposit struct {
	Transfer string `json:"transfer"`
	Cents    int64  `json:"cents"`
}

var clearingClient = &http.Client{Timeout: bankPatience, Transport: &http.Transport{DisableKeepAlives: true}} // without keep-alive, because net/http repeats a request by itself if a kept connection has ended

// askClearing sends a request to the second bank. header is the name of the key's header.
func askClearing(ctx context.Context, url, header, key string, t transfer) (d deposit, err error) {
	body, err := json.Marshal(t)
	if err != nil {
		return d, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+url, bytes.NewReader(body))
	if err != nil {
		return d, err
	}
	r.Header.Set(header, key)
	resp, err := clearingClient.Do(r)
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return d, lease.NotSent(err)
	}
	if err != nil {
		return d, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return d, err
	case resp.StatusCode == http.StatusNoContent:
		return d, nil
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return d, &once.Failure{Code: "deposit_refused"}
	case resp.StatusCode != http.StatusCreated:
		return d, fmt.Errorf("the clearing house answers %d %s", resp.StatusCode, b)
	}
	return d, json.Unmarshal(b, &d)
}
