package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// start prepares a life of the program.
func start(t *testing.T, p *oncetest.Process, dsn string) (store.Store[*sql.Tx], *gorm.DB) {
	t.Helper()
	s, orm, err := prepare(t.Context(), p.Open("pgx", dsn))
	if err != nil {
		t.Fatal(err)
	}
	return oncetest.Store(p, store.Store[*sql.Tx](s)), orm
}

// TestOneRefund: whatever fails, breaks or dies, a refund is made once.
func TestOneRefund(t *testing.T) {
	dsn, charge := testenv.NewDatabase(t), 0
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			s, orm := start(t, p, dsn)
			return newServer(once.New(s, once.Config{Observer: once.Discard}), orm)
		},
		Request: func() *http.Request {
			charge++ // it is unique
			r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(fmt.Sprintf(`{"charge":"ch_%d","amount":1000}`, charge)))
			r.Header.Set("X-Tenant", "acme")
			return r
		},
	})
}

// TestOneTransfer: wherever a payout dies, its row is created once, and the bank makes one transfer.
func TestOneTransfer(t *testing.T) {
	testenv.Prove(t)
	dsn, bank := testenv.NewDatabase(t), oncetest.NewProvider(t, oncetest.ProviderConfig{Dedupes: true})
	oncetest.Lease(t, oncetest.Work{
		Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
			s, orm := start(t, p, dsn)
			client := &http.Client{Transport: p.Transport(bank)}
			pay := func(ctx context.Context, key string, f Refund) (string, error) {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test/transfers", strings.NewReader(fmt.Sprint(f.Amount)))
				if err != nil {
					return "", err
				}
				r.Header.Set("Idempotency-Key", key)
				resp, err := client.Do(r)
				if err != nil {
					return "", err
				}
				return "tr_" + key[:8], resp.Body.Close()
			}
			jobs, work := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard}), &payout{orm, s, pay}
			return func(ctx context.Context, op once.Operation) (any, error) {
				r, err := once.Do(ctx, jobs, op, func(ctx context.Context, run *lease.Run) (Refund, error) {
					return work.work(ctx, run, Refund{Charge: op.Key, Amount: 1000})
				})
				return r.Value, err
			}
		},
	})
}
