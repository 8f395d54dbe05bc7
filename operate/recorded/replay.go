package recorded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/wire"
)

// The constants are the values of [Answer].Outcome: the outcomes of a request that was sent again.
const (
	OutcomeExecuted   = "executed"
	OutcomeReplayed   = "replayed"
	OutcomeRefused    = "refused"
	OutcomeUnanswered = "unanswered"
)

// maxAnswer limits the size of the body of an answer. answerTime limits the time from the start of a request to the end of its answer.
const (
	maxAnswer  = 64 << 20
	answerTime = time.Minute
)

// ReplayConfig says how often and with which headers [Request.Replay] sends a request. With the zero value of ReplayConfig, Request.Replay sends the
// request one time.
type ReplayConfig struct {
	Concurrency int         // the number of requests that are sent at the same time; default 1
	Times       int         // the number of rounds of Concurrency requests; default 1
	Header      http.Header // the headers that replace recorded headers; an empty value removes the recorded header
}

// Report has the answers of a service to a request that was sent again. The JSON form of a Report does not change between versions, because scripts
// read it.
type Report struct {
	ID          string   `json:"id"`
	To          string   `json:"to"`
	Sent        int      `json:"sent"`
	Executed    int      `json:"executed"`
	Replayed    int      `json:"replayed"`
	Refused     int      `json:"refused"`
	Unanswered  int      `json:"unanswered"`
	BodiesEqual bool     `json:"bodies_equal"` // true if all answers whose Outcome is executed or replayed have the same body
	Answers     []Answer `json:"answers"`
}

// Answer is one answer of a service to a recorded request.
type Answer struct {
	Round      int    `json:"round"`
	Status     int    `json:"status,omitempty"`
	Outcome    string `json:"outcome"` // one of OutcomeExecuted, OutcomeReplayed, OutcomeRefused and OutcomeUnanswered
	BodySHA256 string `json:"body_sha256,omitempty"`
	SameBody   bool   `json:"same_body"` // true if the body is the same as in the first answer whose Outcome is executed or replayed
	Error      string `json:"error,omitempty"`
}

// Replay sends the request to the service at target, as cfg says, and returns the answers. Replay does not follow redirects.
func (r *Request) Replay(ctx context.Context, target *url.URL, cfg ReplayConfig) (Report, error) {
	at, times := max(cfg.Concurrency, 1), max(cfg.Times, 1)
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: at}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport, Timeout: answerTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	report := Report{ID: r.ID, To: target.String(), Answers: make([]Answer, times*at)}
	for round := range times {
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range at {
			req, err := r.HTTP(ctx, target, cfg.Header)
			if err != nil {
				return Report{}, err
			}
			answer := &report.Answers[round*at+i]
			all.Go(func() {
				<-start
				*answer = answerTo(client, req)
				answer.Round = round + 1
			})
		}
		// All requests of a round start together, so that the service gets them at the same time.
		close(start)
		all.Wait()
		// A part of the answers would look like a complete result.
		if ctx.Err() != nil {
			return Report{}, ctx.Err()
		}
	}
	report.count()
	return report, nil
}

// answerTo sends one request, and returns its answer.
func answerTo(client *http.Client, req *http.Request) Answer {
	resp, err := client.Do(req)
	if err != nil {
		return Answer{Outcome: OutcomeUnanswered, Error: err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Answer{Status: resp.StatusCode, Outcome: OutcomeUnanswered, Error: err.Error()}
	case len(body) > maxAnswer:
		return Answer{Status: resp.StatusCode, Outcome: OutcomeUnanswered, Error: fmt.Sprintf("the body of the answer has more than %d bytes", maxAnswer)}
	}
	hash := sha256.Sum256(body)
	return Answer{Status: resp.StatusCode, Outcome: outcomeOf(resp), BodySHA256: hex.EncodeToString(hash[:])}
}

// outcomeOf returns the outcome that the headers of an answer show. The answer of a service without keys has no such header. In this case a redirect,
// which is not followed, and a refusal do not count as executions.
func outcomeOf(resp *http.Response) string {
	status := strings.ToLower(resp.Header.Get(wire.StatusHeader))
	switch {
	case strings.EqualFold(resp.Header.Get(wire.ReplayedHeader), "true"), status == wire.StatusReplayed:
		return OutcomeReplayed
	case status == wire.StatusStored, status == wire.StatusOmitted, status == "" && resp.StatusCode < 300:
		return OutcomeExecuted
	}
	return OutcomeRefused
}

// count counts the outcomes of the answers, and compares their bodies.
func (r *Report) count() {
	first := ""
	r.Sent, r.BodiesEqual = len(r.Answers), true
	for i := range r.Answers {
		a := &r.Answers[i]
		switch a.Outcome {
		case OutcomeExecuted:
			r.Executed++
		case OutcomeReplayed:
			r.Replayed++
		case OutcomeRefused:
			r.Refused++
			// A refusal has its own body, which says nothing about the stored answer.
			continue
		default:
			r.Unanswered++
			continue
		}
		if first == "" {
			first = a.BodySHA256
		}
		a.SameBody = a.BodySHA256 == first
		r.BodiesEqual = r.BodiesEqual && a.SameBody
	}
}
