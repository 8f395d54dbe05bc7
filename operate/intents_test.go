package operate

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once/retry/journal"
)

// TestResumeListsAnswersThatCloseNothing: an operator sees the last answer to each intent, also to one that stays open, such as a 500 or a login page.
func TestResumeListsAnswersThatCloseNothing(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/done", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("/fails", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) })
	mux.Handle("/protected", http.RedirectHandler("/login", http.StatusFound))
	mux.HandleFunc("/login", func(http.ResponseWriter, *http.Request) {})
	service := httptest.NewServer(mux)
	defer service.Close()
	j, err := journal.Open(filepath.Join(t.TempDir(), "intents"), journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	for _, key := range []string{"done", "fails", "protected"} {
		in, err := j.Begin(t.Context(), journal.Intent{Key: key, Method: http.MethodPost, URL: service.URL + "/" + key, Since: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.End(t.Context(), in, journal.ProofNone); err != nil {
			t.Fatal(err)
		}
	}
	s := NewIntents(j)
	r, err := s.Resume(t.Context(), ResumeRequest{})
	if err != nil || r.Closed != 1 || r.Open != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	slices.SortFunc(r.Answers, func(a, b ResumeAnswer) int { return a.Status - b.Status })
	want := []ResumeAnswer{
		{"protected", service.URL + "/protected", http.StatusOK},
		{"done", service.URL + "/done", http.StatusCreated},
		{"fails", service.URL + "/fails", http.StatusNotImplemented},
	}
	if !slices.Equal(r.Answers, want) {
		t.Errorf("answers %v, want %v", r.Answers, want)
	}
	if open, err := s.List(t.Context()); err != nil || len(open) != 2 {
		t.Errorf("open: %v, %v", open, err)
	}
}
