package saga_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

type transfer struct {
	From, To string
	Cents    int
}

// otherBank takes part in transfers: it serves deposits, and what undoes them.
func otherBank() http.Handler {
	engine := once.New(memstore.New(), once.Config{})
	deposits := oncehttp.Config{Principal: oncehttp.SharedPrincipal()} // who asks, in a real service
	undos := deposits
	undos.Undoes = "POST /deposits"

	mux := http.NewServeMux()
	mux.Handle("POST /deposits", oncehttp.Handler(engine, deposits, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		var t transfer
		if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
			oncehttp.Fail(w, r, &once.Failure{Code: "malformed", Message: err.Error()})
			return
		}
		if err := tx.Put("deposited "+t.To, fmt.Sprint(t.Cents)); err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "deposit to "+t.To)
	}))
	mux.Handle("POST /deposits/undo", oncehttp.Handler(engine, undos, func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
		deposit, _ := io.ReadAll(r.Response.Body)
		fmt.Printf("the other bank takes back: %s\n", deposit)
	}))
	return mux
}

// A step at a service that takes part in the saga: Cancel names the key of the call, whatever became of that call.
func ExampleCallStep_Cancel() {
	bank := httptest.NewServer(otherBank())
	defer bank.Close()

	post := func(ctx context.Context, path, header, key string, body any) (string, error) {
		b, err := json.Marshal(body)
		if err != nil {
			return "", err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, bank.URL+path, strings.NewReader(string(b)))
		if err != nil {
			return "", err
		}
		r.Header.Set(header, key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode >= 300 {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return string(text), err
	}

	withdraw := saga.Tx("withdraw", func(_ context.Context, tx *memstore.Tx, t transfer) (string, error) {
		return t.From, tx.Put("withdrawn "+t.From, fmt.Sprint(t.Cents))
	}).Undo(func(_ context.Context, tx *memstore.Tx, t transfer, _ string) error {
		fmt.Println("put back:", t.Cents)
		return tx.Delete("withdrawn " + t.From)
	})
	deposit := saga.Call("deposit", func(ctx context.Context, key string, t transfer) (string, error) {
		return post(ctx, "/deposits", "Idempotency-Key", key, t)
	}).Cancel(func(ctx context.Context, key string, _ transfer) error {
		_, err := post(ctx, "/deposits/undo", "Once-Undoes", key, nil)
		return err
	})
	confirm := saga.Tx("confirm", func(context.Context, *memstore.Tx, transfer) (string, error) {
		return "", &once.Failure{Code: "over_the_limit"}
	})
	transfers := saga.New("transfer", func(ctx saga.Context, t transfer) (string, error) {
		if _, err := withdraw.Do(ctx, t); err != nil {
			return "", err
		}
		if _, err := deposit.Do(ctx, t); err != nil {
			return "", err
		}
		return confirm.Do(ctx, t)
	}, withdraw, deposit, confirm)

	runner := saga.NewRunner(memstore.New(), saga.Config{}, transfers)
	_, err := saga.Do(context.Background(), runner, transfers, saga.ID{Tenant: "acme", Key: "transfer-1"}, transfer{"ann", "bob", 500})
	fmt.Println(err)
	// Output:
	// the other bank takes back: deposit to bob
	// put back: 500
	// over_the_limit
}
