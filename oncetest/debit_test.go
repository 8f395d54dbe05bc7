package oncetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
)

// bank answers each request, after an effect.
type bank func()

func (b bank) RoundTrip(r *http.Request) (*http.Response, error) {
	b()
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("ok")), Header: http.Header{}, Request: r}, nil
}

// TestADebitIsAnEffect: of a call whose outcome is unknown there is at most one effect, also if the effect is negative.
func TestADebitIsAnEffect(t *testing.T) {
	for _, amount := range []int64{100, -100} {
		var balance atomic.Int64
		texts := complaints(t, func(tb testing.TB) {
			oncetest.Do(tb, oncetest.Work{
				Count: map[string]func() int{"balance": func() int { return int(balance.Load()) }},
				Skip: []oncetest.Fault{
					oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch, oncetest.FaultConcurrent, oncetest.FaultDeath, oncetest.FaultNotSent,
				},
				Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
					client, results := p.Transport(bank(func() { balance.Add(amount) })), map[string]error{}
					send := func(ctx context.Context) error {
						r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test", nil)
						if err != nil {
							return err
						}
						resp, err := client.RoundTrip(r)
						if err != nil {
							return err
						}
						return resp.Body.Close()
					}
					return func(ctx context.Context, op once.Operation) (any, error) {
						err, known := results[op.Key]
						if !known {
							if send(ctx) != nil {
								_ = send(ctx) // wrong
								err = &once.Error{Code: once.CodeUnknown}
							}
							results[op.Key] = err
						}
						return "paid", err
					}
				},
			})
		})
		if said := fmt.Sprint(texts...); len(texts) != 1 || !strings.Contains(said, fmt.Sprintf("balance %+d", 2*amount)) {
			t.Errorf("%d: it says %q", amount, said)
		}
	}
}
