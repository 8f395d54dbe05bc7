package webhook

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
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

// TestErrorsShowTheHost: an error of a request shows the host of its URL, and neither path nor query.
func TestErrorsShowTheHost(t *testing.T) {
	signer, err := NewSigner("whsec_" + strings.Repeat("c2VjcmV0", 4))
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{"https://ep.example/passw0rd?passw0rd": "ep.example", "https://ep.example/%zz/passw0rd": ""} {
		client := &http.Client{Transport: tripper(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })}
		a := (&request{url: url, signer: signer, id: "msg_1"}).send(t.Context(), client)
		if a.err == nil || strings.Contains(a.err.Error(), "passw0rd") || !strings.Contains(a.err.Error(), want) {
			t.Errorf("%v", a.err)
		}
	}
}

// TestScheduleOfRetries: pauses are those of the list, shorter by a tenth at most, and then it has run out.
func TestScheduleOfRetries(t *testing.T) {
	different := map[time.Duration]bool{}
	for range 1000 {
		for i, p := range defaultSchedule {
			got, steps := pauseAfter(i+1, 0, defaultSchedule)
			if steps != 1 || got > p || got < p-p/10 {
				t.Fatalf("the pause after %d failures is %v, want %v", i+1, got, p)
			}
			different[got] = true
		}
	}
	if len(different) < 1000 {
		t.Errorf("there are %d different pauses", len(different))
	}
	if _, steps := pauseAfter(len(defaultSchedule)+1, 0, defaultSchedule); steps != 0 {
		t.Error("it never runs out")
	}
}

// TestRetryAfterTakesPauses: an endpoint that asks for long pauses gets them, and all pauses of a delivery together are no longer than the schedule.
func TestRetryAfterTakesPauses(t *testing.T) {
	var most time.Duration
	for _, p := range defaultSchedule {
		most += p
	}
	for _, asked := range []time.Duration{time.Second, time.Minute, 5 * time.Minute, time.Hour, 13 * time.Hour, mostRetryAfter} {
		var total time.Duration
		for failures := 1; ; {
			pause, steps := pauseAfter(failures, asked, defaultSchedule)
			if steps == 0 {
				break
			}
			if total += pause; pause < asked && total < most-most/10 {
				t.Errorf("after %d failures the pause is %v, and %v were asked for", failures, pause, asked)
			}
			failures += steps
		}
		if total > most || total < most/2 {
			t.Errorf("with a Retry-After of %v the pauses are %v together, at most %v are allowed", asked, total, most)
		}
	}
}

// TestRetryAfter reads what an endpoint asks for.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "x": 0, "7": 7 * time.Second, "1.5": 1500 * time.Millisecond, "1e300": mostRetryAfter, "NaN": 0, "Inf": mostRetryAfter,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0, now.AddDate(1, 0, 0).Format(http.TimeFormat): mostRetryAfter,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	theirs := http.Header{"Retry-After": {now.Add(time.Minute).Format(http.TimeFormat)}, "Date": {now.Add(30 * time.Second).Format(http.TimeFormat)}}
	if got := retryAfter(theirs, now); got != 30*time.Second {
		t.Errorf("by their clock it is %v", got)
	}
}

// TestOwnHeaders: headers of an endpoint cannot replace those of a webhook, nor what HTTP needs.
func TestOwnHeaders(t *testing.T) {
	for name, want := range map[string]bool{"authorization": true, "X-Webhook": true, "webhook-id": false, "WEBHOOK-signature": false, "webhook-other": false, "host": false, "content-length": false, "Transfer-encoding": false} {
		if got := mayAdd(name); got != want {
			t.Errorf("%s is added: %t", name, got)
		}
	}
}
