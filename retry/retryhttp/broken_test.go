package retryhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/retry/journal"
)

// TestBrokenAnswerLeavesItsIntentOpen: if the caller has read that the answer broke off, the intent stays open, and Resume gets the whole answer.
func TestBrokenAnswerLeavesItsIntentOpen(t *testing.T) {
	const whole = `{"refund": "re_1"}`
	for name, header := range map[string][2]string{
		"of unknown length": {"X-None", ""},
		"longer than kept":  {"Content-Length", "100000"},
		"stored":            {"Idempotency-Status", "stored"},
		"gone":              {"Idempotency-Status", "omitted"},
	} {
		n := 0
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n++; n > 1 {
				_, _ = io.WriteString(w, whole)
				return
			}
			w.Header().Set(header[0], header[1])
			if name == "gone" {
				w.WriteHeader(http.StatusConflict)
			}
			_, _ = io.WriteString(w, whole[:15])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		f, path := newJournal(t)
		client := journaled(f, nil)
		resp, err := ask(t, client, "k", service.URL)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := io.ReadAll(resp.Body); err == nil {
			t.Fatalf("%s: vacuous: the whole answer is %q", name, text)
		}
		if err := resp.Body.Close(); err != nil || !slices.Equal(openIn(t, path), []string{"k"}) {
			t.Errorf("%s: open: %v, %v", name, openIn(t, path), err)
		}
		var got []byte
		options := journal.Options{Answer: func(_ journal.Intent, resp *http.Response) (err error) {
			got, err = io.ReadAll(resp.Body)
			return err
		}}
		if r, err := journal.Resume(t.Context(), f, client, options); err != nil || r != (journal.Resumed{Closed: 1}) || string(got) != whole {
			t.Errorf("%s: %+v, %v, %q", name, r, err, got)
		}
		service.Close()
	}
}

// TestAnswerThatIsNotReadClosesItsIntent: a caller that closes the body without reading it to its end needs no more of the answer, so its intent is closed.
func TestAnswerThatIsNotReadClosesItsIntent(t *testing.T) {
	for name, length := range map[string]int64{"nothing": 0, "a part": 5} {
		f, path := newJournal(t)
		resp, err := ask(t, journaled(f, base(func(int, *http.Request) (*http.Response, error) {
			resp := answer(http.StatusOK)
			resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader("a long text")), -1
			return resp, nil
		})), "k", "http://service.example/refunds")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, length); err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || len(openIn(t, path)) != 0 {
			t.Errorf("%s was read: open: %v, %v", name, openIn(t, path), err)
		}
	}
}

// TestHeldIntentOfABrokenAnswer: an answer that says that the key has expired holds its intent, also if its body breaks off.
func TestHeldIntentOfABrokenAnswer(t *testing.T) {
	f, _ := newJournal(t)
	const problem = `{"code":"CONFLICT.idempotency.stale","retryable":false}`
	resp, err := ask(t, journaled(f, base(func(int, *http.Request) (*http.Response, error) {
		resp := answer(http.StatusPreconditionFailed, "Content-Type", "application/problem+json")
		resp.Body, resp.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(problem+strings.Repeat(" ", 200<<10)), broken{})), -1
		return resp, nil
	})), "k", "http://service.example/refunds")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Fatal("vacuous: the answer is whole")
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := f.List(t.Context()); err != nil || len(list) != 1 || list[0].Held == "" {
		t.Errorf("%+v, %v", list, err)
	}
}
