package webhook

import (
	"net/http"
	"strings"
	"testing"
)

type tripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOddStatus: a status that HTTP does not have is no answer. The HTTP/2 client takes any number, and a database does not.
func TestOddStatus(t *testing.T) {
	signer, err := NewSigner("whsec_" + strings.Repeat("c2VjcmV0", 4))
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]int{100: 100, 204: 204, 999: 999, 99: 0, 1000: 0, 3_000_000_000: 0} {
		client := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
		})}
		a := (&request{url: "https://ep.example", signer: signer, id: "msg_1"}).send(t.Context(), client)
		if a.Status != want || (a.Error != "") != (want == 0) || (a.err != nil) != (want == 0) {
			t.Errorf("after %d the status is %d, and the error %q (%v)", status, a.Status, a.Error, a.err)
		}
	}
}
