package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	scope    = "acme POST /refunds"
	ttl      = 200 * time.Millisecond
	patience = 90 * time.Second // bounds what must come: a hang is a failure
)

// Policies of the calls of a program.
const (
	deduped   = "deduped"   // the service dedupes
	tombstone = "tombstone" // it can be asked, and then refuses the key if it has not taken effect
	none      = ""          // nothing is said
)

// program is the service that does the work, as one process has it.
type program struct {
	db     database
	url    string // of the provider
	by     string // names the process
	policy string
	ttl    time.Duration // 0: ttl

	at        func(point string) // is called around requests; nil: no
	dial      harness.Dial       // nil: the usual
	fate      string             // of this process when it calls
	fatePhase string
	procedure string // that phase "book" runs before the process is killed
	ran       func() // is called when the handler runs; nil: no
}

func operation(key string) once.Operation {
	return once.Operation{Scope: scope, Key: key, Request: []byte("refund " + key), Fingerprint: once.FingerprintOf([]byte("refund " + key))}
}

func idOf(key string) store.ID { return store.ID{Scope: scope, Key: key} }

// encrypter keeps the requests of operations, for a Completer.
func encrypter() once.Encrypter {
	box, err := once.NewEncrypter(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return box
}

// engine returns a new one, as a process that has just begun has it.
func (p program) engine() (*once.Engine[*lease.Run], *lease.Store) {
	cfg := lease.Config{TTL: p.ttl}
	if cfg.TTL == 0 {
		cfg.TTL = ttl
	}
	s := lease.New(p.db.ops, cfg)
	return once.New(s, once.Config{Encrypter: encrypter(), Observer: once.Discard}), s
}

// handler is the work of an operation: three phases, and two calls between them.
func (p program) handler(key string) func(context.Context, *lease.Run) (string, error) {
	return func(ctx context.Context, r *lease.Run) (string, error) {
		if p.ran != nil {
			p.ran()
		}
		reserved, err := p.write(ctx, r, key, "reserve", "reserved by "+p.by)
		if err != nil {
			return "", err
		}
		charged, err := p.call(ctx, r, key, "charge", nil)
		if err != nil {
			return "", err
		}
		if _, err := p.write(ctx, r, key, "book", charged); err != nil {
			return "", err
		}
		notified, err := p.call(ctx, r, key, "notify", []byte("notify from "+p.by))
		if err != nil {
			return "", err
		}
		if _, err := p.write(ctx, r, key, "close", notified); err != nil {
			return "", err
		}
		return strings.Join([]string{reserved, charged, notified}, ", "), nil
	}
}

// write is a phase that writes a row.
func (p program) write(ctx context.Context, r *lease.Run, key, phase, value string) (string, error) {
	return p.db.phase(ctx, r, phase, func(ctx context.Context, on sqlplane.Runner) (string, error) {
		_, err := on.Exec(ctx, p.db.text("insert into effect (operation, phase, value) values (?, ?, ?)", key, phase, value))
		if err == nil && phase == "book" && p.procedure != "" {
			_, _ = on.Exec(ctx, p.db.text(p.procedure))
			faultnet.KillProcess(nil)
		}
		return value, err
	})
}

// call is a phase that calls the provider. With a request it is frozen.
func (p program) call(ctx context.Context, r *lease.Run, key, phase string, request []byte) (string, error) {
	var policy lease.CallPolicy
	switch p.policy {
	case deduped:
		policy.DedupedFor = 24 * time.Hour
	case tombstone:
		policy.Check = lease.Check(p.find)
	}
	fn := func(ctx context.Context, idempotencyKey string, request []byte) (string, error) {
		return p.post(ctx, key, phase, idempotencyKey, string(request))
	}
	if request != nil {
		return lease.CallWith(ctx, r, phase, request, fn, policy)
	}
	return lease.Call(ctx, r, phase, func(ctx context.Context, key string) (string, error) { return fn(ctx, key, []byte("charge")) }, policy)
}

// post sends a request to the provider.
func (p program) post(ctx context.Context, operation, phase, key, body string) (string, error) {
	point := func(name string) {
		if p.at != nil {
			p.at(name)
		}
	}
	// A request that is on its way does not end with the lease of its sender.
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, p.url+"/call/"+phase, strings.NewReader(body))
	if err != nil {
		return "", lease.NotSent(err)
	}
	r.Header.Set(keyHeader, key)
	r.Header.Set(operationHeader, operation)
	r.Header.Set(pidHeader, strconv.Itoa(os.Getpid()))
	if phase == p.fatePhase {
		r.Header.Set(fateHeader, p.fate)
	}
	point("request")
	answer, err := p.send(r)
	point("answered")
	return answer, err
}

var errRefused = errors.New("the service refuses the key")

func (p program) send(r *http.Request) (string, error) {
	transport := &http.Transport{DialContext: p.dial, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return "", err
	case answer.StatusCode == http.StatusGone:
		return "", errRefused
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("status %d", answer.StatusCode)
	}
	return string(body), nil
}

// find asks the provider what became of a call, and has the key refused if it has not taken effect.
func (p program) find(ctx context.Context, key string) (string, lease.Finding, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/void", nil)
	if err != nil {
		return "", lease.Unclear, err
	}
	r.Header.Set(keyHeader, key)
	switch answer, err := p.send(r); {
	case errors.Is(err, errRefused):
		return "", lease.Voided, nil
	case err != nil:
		return "", lease.Unclear, err
	default:
		return answer, lease.Happened, nil
	}
}

// do executes an operation once, as one caller does.
func (p program) do(ctx context.Context, op once.Operation) (once.Result[string], error) {
	e, _ := p.engine()
	return once.Do(ctx, e, op, p.handler(op.Key))
}

// insist asks until there is an answer, as callers do.
func (p program) insist(tb testing.TB, key string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	e, _ := p.engine()
	op := operation(key)
	for {
		r, err := once.Do(ctx, e, op, p.handler(key))
		if err == nil {
			return r.Value
		}
		if once.CodeOf(err) == once.CodeUnknown {
			tb.Fatalf("%s: %v", key, err)
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("%s has not come to its end: %v", key, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// complete runs a Completer until stop is called.
func (p program) complete(tb testing.TB, resumed func(key string, err error)) (stop func()) {
	tb.Helper()
	e, s := p.engine()
	c := lease.Completer{Store: s, Encrypter: encrypter(), Every: 50 * time.Millisecond, CheckEvery: time.Millisecond, Concurrency: 2, Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
		if want := "refund " + op.Key; string(op.Request) != want {
			tb.Errorf("%s is resumed with request %q", op.Key, op.Request)
		}
		_, err := once.Do(ctx, e, op, p.handler(op.Key))
		resumed(op.Key, err)
		return err
	}}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	}
}

// wantDone checks what a finished operation has come to: each phase's row is there once, each call took effect once, and the same key
// is answered without executing anything. The first keys of the calls in voided were voided.
func (p program) wantDone(tb testing.TB, service *provider, key, says string, voided ...string) {
	tb.Helper()
	rows := p.rows(tb, key)
	for _, phase := range []string{"reserve", "book", "close"} {
		if len(rows[phase]) != 1 {
			tb.Errorf("%s: phase %q has written %q", says, phase, rows[phase])
			return
		}
	}
	answers := map[string]string{}
	for phase, row := range map[string]string{"charge": rows["book"][0], "notify": rows["close"][0]} {
		requests, effects := service.of(key, phase)
		total, want := 0, lease.Key(scope, key, phase, 0)
		if slices.Contains(voided, phase) {
			want = lease.Key(scope, key, phase, 1)
		}
		for k, list := range effects {
			total += len(list)
			if k != want && (len(list) > 0 || p.policy == deduped) {
				tb.Errorf("%s: %q was called under key %s, want %s", says, phase, k, want)
			}
		}
		if total != 1 || len(effects[want]) != 1 || effects[want][0] != row {
			tb.Errorf("%s: call %q has had the effects %q, and the phase behind it has written %q", says, phase, effects, row)
			return
		}
		answers[phase] = row
		for _, r := range requests {
			if r.body != requests[0].body {
				tb.Errorf("%s: call %q was sent with %q and with %q", says, phase, requests[0].body, r.body)
			}
		}
	}
	again := p
	again.ran = func() { tb.Errorf("%s: the handler runs again when all is done", says) }
	r, err := again.do(tb.Context(), operation(key))
	if want := strings.Join([]string{rows["reserve"][0], answers["charge"], answers["notify"]}, ", "); err != nil || !r.Replayed || r.Value != want {
		tb.Errorf("%s: %+v, %v, want a replay of %q", says, r, err, want)
	}
}

// rows are what the phases of an operation have written.
func (p program) rows(tb testing.TB, key string) map[string][]string {
	tb.Helper()
	rows := map[string][]string{}
	must(tb, p.db.Pool().Query(tb.Context(), p.db.text("select phase, value from effect where operation = ?", key), func(row sqlplane.Row) error {
		var phase, value string
		err := row.Scan(&phase, &value)
		rows[phase] = append(rows[phase], value)
		return err
	}))
	return rows
}

// state is that of an operation.
func (p program) state(tb testing.TB, key string) store.State {
	tb.Helper()
	rec, err := p.db.ops.Read(tb.Context(), idOf(key))
	must(tb, err)
	return rec.State
}
