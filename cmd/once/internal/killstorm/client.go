package killstorm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

const (
	firstBackoff = 20 * time.Millisecond
	longestWait  = 500 * time.Millisecond
)

var errGaveUp = errors.New("the client got no final answer in time")

// verdict is what the result of one attempt means to its client.
type verdict struct {
	word   string // executed, replayed, mismatch or in flight; for other results, the reason
	status int    // 0: no answer
	code   string // of a problem
	final  bool   // a further attempt would get the same result
	after  time.Duration
}

const (
	executed = "executed"
	replayed = "replayed"
	mismatch = "mismatch"
	inFlight = "in flight"
	refused  = "refused"
	noAnswer = "no answer"
)

func judge(a answer, err error) verdict {
	if err != nil {
		return verdict{word: noAnswer, code: reason(err)}
	}
	v := verdict{status: a.status, code: problemCode(a), final: true}
	switch {
	case a.status < 300 && a.header.Get("Idempotency-Status") == "replayed":
		v.word = replayed
	case a.status < 300:
		v.word = executed
	case v.code == codeInFlight:
		v.word, v.final = inFlight, false
		seconds, _ := strconv.Atoi(a.header.Get("Retry-After")) // the header is missing, or is a date: the usual pause
		v.after = time.Duration(seconds) * time.Second
	case v.code == codeMismatch:
		v.word = mismatch
	case a.status >= 500, a.status == http.StatusTooManyRequests, a.status == http.StatusRequestTimeout:
		v.word, v.final = "failed", false
	default:
		v.word = refused
	}
	return v
}

const (
	codeInFlight = "CONFLICT.idempotency.in_flight"
	codeMismatch = "CONFLICT.idempotency.mismatch"
)

func problemCode(a answer) string {
	if a.status < 400 {
		return ""
	}
	var p struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(a.body, &p) != nil || p.Code == "" {
		return fmt.Sprintf("http %d", a.status)
	}
	return p.Code
}

// reason puts a failed attempt into one word for the log.
func reason(err error) string {
	switch {
	case errors.Is(err, errDropped):
		return "answer_dropped"
	case errors.Is(err, errHungUp):
		return "client_hung_up"
	case errors.Is(err, errCutOff):
		return "request_cut_off"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "server_down"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "gave_up"
	}
	return "connection_lost"
}

func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}
