package killstorm

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

func TestJudgeEachAnswer(t *testing.T) {
	t.Parallel()
	problem := func(status int, code string, header ...string) answer {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return answer{status, h, []byte(`{"code":"` + code + `"}`)}
	}
	for _, c := range []struct {
		answer answer
		err    error
		word   string
		final  bool
		after  time.Duration
	}{
		{problem(201, "", "Idempotency-Status", "stored"), nil, executed, true, 0},
		{problem(201, "", "Idempotency-Status", "replayed"), nil, replayed, true, 0},
		{problem(422, codeMismatch), nil, mismatch, true, 0},
		{problem(409, codeInFlight, "Retry-After", "2"), nil, inFlight, false, 2 * time.Second},
		{problem(409, codeInFlight, "Retry-After", "soon"), nil, inFlight, false, 0},
		{problem(409, "CONFLICT.other"), nil, refused, true, 0},
		{problem(422, "VALIDATION.amount_exceeds_charge"), nil, refused, true, 0},
		{problem(503, "TRANSIENT.store_unavailable"), nil, "failed", false, 0},
		{problem(500, ""), nil, "failed", false, 0},
		{answer{}, errors.Join(errDropped), noAnswer, false, 0},
	} {
		v := judge(c.answer, c.err)
		if v.word != c.word || v.final != c.final || v.after != c.after {
			t.Errorf("%d %s: %+v", c.answer.status, c.answer.body, v)
		}
	}
}

// TestMeterWaitsForANumber: a caller that waits for a number gets it, or is told that it did not come.
func TestMeterWaitsForANumber(t *testing.T) {
	t.Parallel()
	m := newMeter()
	came := make(chan bool)
	go func() { came <- m.wait(t.Context(), 3, forever) }()
	m.count()
	m.raise(1)
	m.raise(3)
	if !<-came || m.value() != 3 {
		t.Errorf("%d", m.value())
	}
	if m.wait(t.Context(), 4, time.Millisecond) {
		t.Error("4 of 3")
	}
}
