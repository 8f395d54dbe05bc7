package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
)

// killLoop is the kill loop of one store.
type killLoop struct {
	t         *testing.T
	g         *testDB
	successor system        // repeats what the dead have begun
	proxy     *holdingProxy // of a takeover
	tally     tally
}

// The attempts at one operation.
const (
	byEarlier   = "earlier" // the operation that a replay finds
	byVictim    = "victim"
	bySuccessor = "successor"
)

// loop kills at points 1, 1+step, ... until the victim survives.
func (s *killLoop) loop(flow, mode string, step int64) {
	s.t.Helper()
	s.visit(flow, mode, step, s.strike)
}

// visit has strike kill at points 1, 1+step, ..., and judge, until the victim survives.
func (s *killLoop) visit(flow, mode string, step int64, strike func(ctx context.Context, p *point) (survived bool, err error)) {
	s.t.Helper()
	p := &point{store: s.g.name, flow: flow, mode: mode}
	only := onlyPoint()
	if only != "" && !p.is(only) {
		return
	}
	harness.Loop(s.t, 0, func(n int) bool {
		if only == "" {
			p.at = 1 + int64(n-1)*step
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		defer cancel()
		survived, err := strike(ctx, p)
		if err != nil {
			s.t.Fatalf("killed at point %s: %v\nseed %d. Again: %s", p, err, seed(), p.again(s.t))
		}
		if !survived {
			s.tally.count(p)
		}
		return !survived && only == ""
	})
}

// is moves p to the point of that name, if it is in p's loop.
func (p *point) is(text string) bool {
	number, found := strings.CutPrefix(text, p.loop()+"/")
	at, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil {
		return false
	}
	p.at = at
	return true
}

// strike kills at one point, and judges. It reports whether the victim survived.
func (s *killLoop) strike(ctx context.Context, p *point) (survived bool, err error) {
	key := newKey(p)
	if p.flow == flowReplay {
		if _, _, err := s.successor.Do(ctx, operation(key), work{key: key, attempt: byEarlier}); err != nil {
			return false, fmt.Errorf("before the replay: %w", err)
		}
	}
	killed, ack, acked, err := s.sacrifice(ctx, p, key, byVictim)
	if err != nil {
		return false, err
	}
	if killed && p.flow == flowTwice {
		if ack, acked, err = s.again(ctx, p, key, ack, acked); err != nil {
			return false, err
		}
	}
	if acked {
		if err := s.stands(ctx, p, key, ack); err != nil {
			return false, fmt.Errorf("acknowledged, but: %w", err)
		}
	}
	got, err := s.repeat(ctx, p, key)
	if err != nil {
		return false, err
	}
	if acked && got != ack {
		return false, fmt.Errorf("the acknowledged answer was %+v, the repeated one is %+v", ack, got)
	}
	if err := s.stands(ctx, p, key, got); err != nil {
		return false, err
	}
	if killed {
		s.tally.note(p.flow, acked, got.Attempt)
	}
	return !killed, nil
}

// sacrifice has a process make an attempt that it may not survive. It returns the
// answer that the outside world has got, if it has.
func (s *killLoop) sacrifice(ctx context.Context, p *point, key, attempt string) (killed bool, ack answer, acked bool, err error) {
	victim := s.plan(p, key, attempt)
	if p.flow == flowHTTP {
		return askServer(ctx, s.t, victim)
	}
	if _, killed, err = victim.carryOut(s.t, p.tracer()...); err != nil {
		return false, ack, false, err
	}
	ack, acked, err = acknowledged(victim.Witness)
	if err == nil && !killed && !acked {
		err = errors.New("the victim has survived and acknowledged nothing")
	}
	return killed, ack, acked, err
}

// again has another process repeat the attempt, which dies at the same point if it
// gets that far. It returns the answer that one of the two has given, if one has.
func (s *killLoop) again(ctx context.Context, p *point, key string, first answer, given bool) (answer, bool, error) {
	_, second, acked, err := s.sacrifice(ctx, p, key, byVictim+" two")
	switch {
	case err != nil || !acked:
		return first, given, err
	case given && first != second:
		return first, given, fmt.Errorf("the first one has acknowledged %+v, the second one %+v", first, second)
	}
	return second, true, nil
}

// plan of one process that makes an attempt.
func (s *killLoop) plan(p *point, key, attempt string) plan {
	made := plan{
		Store: s.g.Kind, DSN: s.g.DSN, Flow: p.flow, Mode: p.mode, At: p.at, Cold: p.cold(),
		Key: key, Attempt: attempt, Witness: filepath.Join(s.t.TempDir(), "witness"),
	}
	if p.flow == flowTakeover && s.proxy != nil {
		made.DSN = s.proxy.dsn(made.DSN)
	}
	return made
}

// repeat does what any client does after an answer was lost: ask again.
func (s *killLoop) repeat(ctx context.Context, p *point, key string) (answer, error) {
	switch {
	case s.successor == nil:
		return s.inherit(ctx, p, key)
	case p.flow == flowHTTP:
		return askAgain(ctx, s.successor, key)
	}
	op := operation(key)
	successor := work{key: key, attempt: bySuccessor}
	if p.flow == flowTakeover {
		got, err := s.impatient(ctx, op, successor)
		if err == nil {
			return got, nil
		}
		if once.CodeOf(err) != once.CodeInFlight || once.EffectOf(err) != once.EffectNotApplied {
			return got, fmt.Errorf("taking over: %w", err)
		}
		s.tally.waited++
	}
	op.Wait = patience // the server may not have noticed the death yet
	got, err := run(ctx, s.successor, p.flow, op, successor)
	for once.CodeOf(err) == once.CodeInFlight && ctx.Err() == nil { // a transaction of the caller does not wait
		got, err = run(ctx, s.successor, p.flow, op, successor)
	}
	if err != nil {
		return got, fmt.Errorf("repeated: %w", err)
	}
	return got, nil
}

// impatient asks while the server believes that the dead one is alive.
func (s *killLoop) impatient(ctx context.Context, op once.Operation, w work) (answer, error) {
	s.proxy.settle()
	defer s.proxy.release()
	got, _, err := s.successor.Do(ctx, op, w)
	return got, err
}

// inherit repeats in a new process, which finds nothing but what the dead one left.
func (s *killLoop) inherit(ctx context.Context, p *point, key string) (answer, error) {
	successor := s.plan(p, key, bySuccessor)
	successor.At = 0
	_, killed, err := successor.carryOut(s.t)
	if err != nil || killed {
		return answer{}, fmt.Errorf("the successor (killed: %v): %w", killed, err)
	}
	got, acked, err := acknowledged(successor.Witness)
	if err == nil && !acked {
		err = errors.New("the successor has acknowledged nothing")
	}
	return got, err
}

// stands checks that the database holds exactly what an answer says.
func (s *killLoop) stands(ctx context.Context, p *point, key string, a answer) error {
	got, err := s.g.state(ctx, key)
	if err != nil {
		return err
	}
	want := executed(a.Attempt)
	if p.flow == flowFailure {
		want = declined()
	}
	if got != want {
		return fmt.Errorf("key %s, answer %+v: the database has %+v, want %+v", key, a, got, want)
	}
	return nil
}

// newKey is fresh for each visit of a point. It has no comma, which a key in a header has to be quoted for.
func newKey(p *point) string {
	return fmt.Sprintf("%s-%s-%s-%d-%s", strings.ReplaceAll(p.store, ", ", "-"), p.flow, p.mode, p.at, strconv.FormatInt(time.Now().UnixNano(), 36))
}
