package roundtrippertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry/retryhttp"
)

type maker = func(http.RoundTripper) http.RoundTripper

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// good passes all checks; mutants are made of it where they err in one thing only.
func good(base http.RoundTripper) http.RoundTripper { return &retryhttp.Transport{Base: base} }

// bare does not retry, and leaves to net/http what that repeats.
func bare(base http.RoundTripper) http.RoundTripper {
	return roundTripper(base.RoundTrip)
}

// eager repeats whatever fails, as clients do that one writes in an afternoon.
type eager struct {
	accepted bool                             // 202 with Retry-After is a failure
	dry      bool                             // the body is not read again
	leaky    bool                             // answers are not closed
	drowned  bool                             // answers are read to the end
	deaf     bool                             // for the end of the context
	wait     func(after string) time.Duration // instead of a short pause
}

func (e eager) on(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		for attempt := 1; ; attempt++ {
			resp, err := base.RoundTrip(r)
			failed := err != nil || resp.StatusCode >= 400 || e.accepted && resp.StatusCode == http.StatusAccepted
			if !failed || attempt == 3 || !e.deaf && r.Context().Err() != nil {
				return resp, err
			}
			wait := 10 * time.Millisecond
			if e.wait != nil && resp != nil {
				wait = e.wait(resp.Header.Get("Retry-After"))
			}
			if resp != nil && !e.leaky {
				if e.drowned {
					_, _ = io.Copy(io.Discard, resp.Body)
				} else {
					_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
				}
				resp.Body.Close()
			}
			if e.deaf {
				wait = min(wait, 5*time.Second)
				r = r.WithContext(context.WithoutCancel(r.Context()))
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			r = r.Clone(r.Context())
			if e.dry {
				r.GetBody = nil // net/http would help out
			} else if r.GetBody != nil {
				r.Body, _ = r.GetBody()
			}
		}
	})
}

func seconds(after string) time.Duration {
	n, _ := strconv.ParseInt(after, 10, 64)
	return time.Duration(n) * time.Second
}

// inside changes what good sends; outside what it is asked and answers.
func inside(change func(*http.Request) *http.Request) maker {
	return func(base http.RoundTripper) http.RoundTripper {
		return &retryhttp.Transport{Keys: true, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			return base.RoundTrip(change(r))
		})}
	}
}

func outside(change func(*http.Response, error) (*http.Response, error)) maker {
	return func(base http.RoundTripper) http.RoundTripper {
		next := good(base)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return change(next.RoundTrip(r))
		})
	}
}

// quiet is a body that ends where it breaks off.
type quiet struct{ io.ReadCloser }

func (q quiet) Read(p []byte) (int, error) {
	n, err := q.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// single sends each request once, and does not let net/http send it again.
func single(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.GetBody = nil
		return base.RoundTrip(r)
	})
}

// opaque hides what a body can do besides being read.
func opaque(resp *http.Response, err error) (*http.Response, error) {
	if err == nil {
		resp.Body = quiet{resp.Body}
	}
	return resp, err
}

// whole reads as much of an answer as it says that there is, and all of others.
func whole(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return resp, err
	}
	var body io.Reader = resp.Body
	if resp.ContentLength > 0 {
		body = io.LimitReader(body, resp.ContentLength)
	}
	text, err := io.ReadAll(body)
	resp.Body.Close()
	resp.Body, resp.Trailer = io.NopCloser(bytes.NewReader(text)), nil
	return resp, err
}

func rekey(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Idempotency-Key", rand.Text())
	return r
}

// mutants are, for each check, a client that must not pass it.
var mutants = map[string]maker{
	"KeylessPOST503":   eager{}.on,
	"KeylessPOSTReset": eager{}.on,
	"KeyedPOST503":     bare,
	"KeyedPOSTReset":   bare,
	"InFlight409":      bare,
	"Accepted202":      eager{accepted: true}.on,
	"GeneratedKey":     inside(rekey),
	"Redirect":         eager{dry: true}.on,
	"RedirectGeneratedKey": func(base http.RoundTripper) http.RoundTripper {
		next := good(base)
		return roundTripper(func(r *http.Request) (*http.Response, error) { return next.RoundTrip(rekey(r)) })
	},
	"RequestUntouched": func(base http.RoundTripper) http.RoundTripper {
		next := good(base)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r.Header.Set("Once-Attempt", "1")
			return next.RoundTrip(r)
		})
	},

	"RetryAfterSeconds":  eager{}.on,
	"RetryAfterDate":     eager{wait: seconds}.on,
	"RetryAfterOldDates": eager{wait: seconds}.on,
	"RetryAfterFraction": eager{wait: seconds}.on,
	"RetryAfterUTC":      eager{wait: seconds}.on,
	"RetryAfterMs":       eager{wait: seconds}.on,
	"RefusedByProxy":     eager{}.on,
	"KeyWithoutALine":    bare,
	"RetryAfterNeverEarly": eager{wait: func(after string) time.Duration {
		return time.Duration((0.9 + 0.2*mathrand.Float64()) * float64(seconds(after)))
	}}.on,
	"RetryAfterBeyondDeadline": eager{wait: seconds}.on,
	"RetryAfterOverflow":       eager{wait: seconds}.on,
	"RetryAfterNonsense":       bare,
	"CancelledInWait":          eager{deaf: true, wait: seconds}.on,
	"LastFailureInWait":        eager{wait: seconds}.on,

	"OpaqueBody": eager{}.on,
	"LargeBody":  eager{dry: true}.on,
	"CutAnswer": func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(r)
			if err == nil {
				resp.Body = quiet{resp.Body}
			}
			return resp, err
		})
	},
	"AnswerIntact": outside(func(resp *http.Response, err error) (*http.Response, error) {
		if err == nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 1)
		}
		return resp, err
	}),
	"LastResponse": outside(func(resp *http.Response, err error) (*http.Response, error) {
		if err == nil && resp.StatusCode >= 500 {
			resp.Body.Close()
			return nil, errors.New("gave up")
		}
		return resp, err
	}),
	"EndlessErrorBody": eager{drowned: true}.on,

	"OneConnection": eager{leaky: true}.on,
	"HealthyHost": func(base http.RoundTripper) http.RoundTripper {
		next := good(base)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err != nil || resp.StatusCode >= 500 {
				base.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			}
			return resp, err
		})
	},
	"HiddenResend":       bare,
	"HiddenResendNoBody": bare,
	"HTTP2Refused":       bare,
	"HTTP2GoAway":        bare,

	"StaleConnection":         single,
	"StaleConnections8":       single,
	"StaleConnections64":      single,
	"StaleHTTP2":              single,
	"StaleHTTP2Connections8":  single,
	"StaleHTTP2Connections64": single,
	"StaleHTTP2Streams":       single,

	"TooEarly":             bare,
	"KeylessPOST425":       bare,
	"NotImplemented":       eager{}.on,
	"UntrustedCertificate": eager{}.on,
	"CancelledInAttempt":   eager{deaf: true}.on,

	"ReplayedErrorStops": eager{}.on,
	"NotRetryableStops":  eager{}.on,
	"Bare409":            eager{}.on,
	"RetryAfter409":      bare,
	"Retryable409":       bare,
	"Mismatch422":        eager{}.on,
	"StaleKey412":        eager{}.on,
	"KeyExpiryStops":     eager{wait: seconds}.on,
	"ShouldRetryNo":      eager{}.on,
	"ShouldRetryYes":     bare,

	"EarlyHints":            inside(func(r *http.Request) *http.Request { return r.WithContext(context.Background()) }),
	"EarlyHintsThenReset":   single,
	"SwitchingProtocols":    outside(opaque),
	"ServerSentEvents":      outside(whole),
	"ServerSentEventsKeyed": outside(whole),
	"Trailers":              outside(whole),
	"TrailersHTTP2":         outside(whole),

	"BudgetOneCaller":      eager{}.on,
	"BudgetFourCallers":    eager{}.on,
	"BudgetHundredCallers": eager{}.on,
	"BudgetInFlight":       eager{}.on,
	"RateLimit":            bare,
}

// A check that no client can fail proves nothing.
func TestEveryCheckCanFail(t *testing.T) {
	testenv.Prove(t)
	for _, check := range Checks() {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			candidates := []Candidate{}
			if mutant := mutants[check.Name]; mutant != nil {
				candidates = append(candidates, Candidate{New: mutant, NewWithKeys: mutant})
			}
			if check.Name == "KilledAndResumed" {
				candidates = forgetful
			}
			if len(candidates) == 0 {
				t.Fatal("there is no client that must fail it")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			for _, c := range candidates {
				err := check.judge(ctx, c)
				if err == nil || errors.Is(err, errNoJournal) || errors.Is(err, errNoKeys) {
					t.Fatalf("by a client that must fail it: %v", err)
				}
				t.Log(strings.ReplaceAll(err.Error(), "\n", "; "))
			}
		})
	}
}

// A client that does nothing passes only what asks for nothing.
func TestJudgeAClientThatDoesNothing(t *testing.T) {
	passed := 0
	results := Judge(t.Context(), Candidate{New: good})
	for i, r := range results {
		if r.Check != Checks()[i].Name || r.Passed != (r.Note == "") {
			t.Errorf("%+v", r)
		}
		if r.Passed {
			passed++
		}
	}
	if want := len(results) - 3; passed != want {
		t.Errorf("%d passed, want %d: all but those that need a client which makes keys, or has a journal", passed, want)
	}
}
