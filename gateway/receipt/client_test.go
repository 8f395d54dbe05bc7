package receipt_test

// The tests with databases are in integration/receipt: "make test-of DIR=gateway/receipt" runs them after these.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
)

// vector is an answer of an endpoint, and what a client makes of it.
type vector struct {
	Name, Type, Location, Text, Means string
	Status                            int
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	text, err := os.ReadFile("testdata/contract.json")
	var contract struct{ Answers []vector }
	if err = errors.Join(err, json.Unmarshal(text, &contract)); err != nil || len(contract.Answers) < 20 {
		tb.Fatal(len(contract.Answers), err)
	}
	return contract.Answers
}

func newClient(tb testing.TB, h http.Handler, cfg receipt.ClientConfig) *receipt.Client {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	c, err := receipt.NewClient(server.URL+"/once-receipt", cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestAnswersOfEndpoints: a client believes what is exactly an answer, and nothing else.
func TestAnswersOfEndpoints(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/tombstone" {
					v = vector{Status: http.StatusOK, Text: `{"operation":"op","state":"tombstone"}`}
				}
				w.Header().Set("Content-Type", "application/json; charset=utf-8")
				if v.Type != "" {
					w.Header().Set("Content-Type", v.Type)
				}
				if v.Location != "" {
					w.Header().Set("Location", v.Location)
				}
				w.WriteHeader(v.Status)
				_, _ = w.Write([]byte(v.Text))
			}), receipt.ClientConfig{})
			means := v.Means
			got, found, err := c.Look(t.Context(), "op")
			if (err != nil) != (means == "error") || found != (means == "tombstone" || means == "committed") || got.Tombstone != (means == "tombstone") {
				t.Errorf("look: %+v, %v, %v, want %s", got, found, err, means)
			}
			got, err = c.Settle(t.Context(), "op")
			if (err != nil) != (means == "error" || means == "none") || got.Tombstone != (means == "tombstone") {
				t.Errorf("settle: %+v, %v, want %s", got, err, means)
			}
		})
	}
}

// fixed are receipts that a test knows.
type fixed struct {
	receipt gateway.Receipt
	found   bool
	err     error
	settled *int
}

// Look implements gateway.Receipts.
func (f fixed) Look(context.Context, string) (gateway.Receipt, bool, error) {
	return f.receipt, f.found, f.err
}

// Settle implements gateway.Receipts.
func (f fixed) Settle(context.Context, string) (gateway.Receipt, error) {
	if f.settled != nil {
		*f.settled++
	}
	return f.receipt, f.err
}

// TestHandlerAndClient: what a handler is told, its client tells, and its errors stay errors. What the client sends reaches it.
func TestHandlerAndClient(t *testing.T) {
	settled := 0
	for _, f := range []fixed{
		{receipt: gateway.Receipt{Operation: "op", Fingerprint: "f", Status: 201, Header: http.Header{"Set-Cookie": {"a", "b"}}, Body: []byte{0, 255}}, found: true},
		{receipt: gateway.Receipt{Operation: "op", Status: 204}, found: true},
		{receipt: gateway.Receipt{Operation: "op", Tombstone: true}, found: true, settled: &settled},
		{err: errors.New("the server hangs")},
		{},
	} {
		h := receipt.Handler(f)
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("header: %v", r.Header)
			}
			h.ServeHTTP(w, r)
		}), receipt.ClientConfig{Header: http.Header{"Authorization": {"Bearer secret"}}})
		got, found, err := c.Look(t.Context(), "op")
		if !reflect.DeepEqual(got, f.receipt) || found != f.found || (err != nil) != (f.err != nil) {
			t.Errorf("look: %+v, %v, %v, want %+v", got, found, err, f)
		}
		if f.settled != nil && settled != 0 {
			t.Error("a look settles")
		}
		got, err = c.Settle(t.Context(), "op")
		if f.found && (err != nil || !reflect.DeepEqual(got, f.receipt)) || !f.found && f.err != nil && err == nil {
			t.Errorf("settle: %+v, %v, want %+v", got, err, f)
		}
	}
	if settled != 1 {
		t.Errorf("settled %d times", settled)
	}
}

// TestClientIsBounded: an answer without an end, and one that does not come, are errors.
func TestClientIsBounded(t *testing.T) {
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for more := true; more; {
			_, err := w.Write([]byte(strings.Repeat(" ", 1<<16)))
			more = err == nil
		}
	}), receipt.ClientConfig{MaxAnswer: 1 << 20})
	if _, err := c.Settle(t.Context(), "op"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
	c = newClient(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), receipt.ClientConfig{Timeout: 1})
	if _, err := c.Settle(t.Context(), "op"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, endpoint := range []string{"", "localhost:3000", "ftp://h/x", "http://h/x?y=1", "http://h/\x00"} {
		if _, err := receipt.NewClient(endpoint, receipt.ClientConfig{}); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// FuzzAnswerIsTakenLiterally: whatever an endpoint sends, a client returns an error, or what the text says in so many words.
func FuzzAnswerIsTakenLiterally(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, found, err := receipt.ParseAnswer(text, "op")
		var said map[string]any
		if plain := json.Unmarshal(text, &said); plain != nil && err == nil {
			t.Fatalf("%q is believed: %+v", text, r)
		}
		switch {
		case err != nil && (found || !reflect.DeepEqual(r, gateway.Receipt{})):
			t.Fatalf("%q: %+v with %v", text, r, err)
		case found && r.Tombstone != (said["state"] == "tombstone"), found && !r.Tombstone && (r.Status < 200 || r.Status > 599):
			t.Fatalf("%q: %+v", text, r)
		}
	})
}
