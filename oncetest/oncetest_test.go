package oncetest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/memstore"
)

// TestWorkInMemory: a program without SQL and connections is tested with the faults of its store.
func TestWorkInMemory(t *testing.T) {
	s := memstore.New()
	count := func() int {
		text, _ := s.Get("refunds")
		n, _ := strconv.Atoi(text)
		return n
	}
	oncetest.Do(t, oncetest.Work{
		Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
			e := once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard})
			return func(ctx context.Context, op once.Operation) (any, error) {
				r, err := once.Do(ctx, e, op, func(_ context.Context, tx *memstore.Tx) (string, error) {
					text, _, err := tx.Get("refunds")
					if err != nil {
						return "", err
					}
					n, _ := strconv.Atoi(text)
					return "refunded", tx.Put("refunds", strconv.Itoa(n+1))
				})
				return r.Value, err
			}
		},
		Count: map[string]func() int{"refunds": count},
		Skip:  []oncetest.Fault{oncetest.FaultNotSent, oncetest.FaultNotAnswered, oncetest.FaultDeath},
	})
	if n := count(); n < 10 {
		t.Errorf("vacuous: %d refunds", n)
	}
}

// said keeps what a provider complains about.
type said struct {
	testing.TB

	texts []any
}

func (s *said) Error(args ...any) { s.texts = append(s.texts, args...) }

// TestProvider: a provider that dedupes has one effect for a key, also if an answer is lost, and complains if the key comes with another request.
func TestProvider(t *testing.T) {
	for _, dedupes := range []bool{true, false} {
		tb := &said{TB: t}
		p := oncetest.NewProvider(tb, oncetest.ProviderConfig{Dedupes: dedupes})
		send := func(body string) error {
			r := httptest.NewRequest(http.MethodPost, "http://bank.test/charges", strings.NewReader(body))
			r.Header.Set("Idempotency-Key", "k")
			resp, err := p.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		p.LoseAnswers(1)
		if send("5") == nil {
			t.Error("the answer is not lost")
		}
		if err := send("5"); err != nil {
			t.Error(err)
		}
		want := 2
		if dedupes {
			want = 1
		}
		if n := p.Effects(); n != want || len(tb.texts) != 0 {
			t.Errorf("dedupes %v: %d effects, %v", dedupes, n, tb.texts)
		}
		if err := send("6"); err != nil || len(tb.texts) != 1 {
			t.Errorf("another request with the key: %v, %v", err, tb.texts)
		}
	}
}
