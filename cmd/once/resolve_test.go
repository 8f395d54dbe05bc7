package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// leasedWork is work that calls a service whose answers are lost.
type leasedWork struct {
	opened

	t     *testing.T
	cfg   once.Config
	loses bool     // the next answer of the service is lost
	mails bool     // another call follows
	keys  []string // of the calls that the service has got
}

func (w *leasedWork) engine() *once.Engine[*lease.Run] {
	cfg := w.cfg
	cfg.Observer = once.Discard
	return once.New(lease.New(w.Store, lease.Config{TTL: time.Minute}), cfg)
}

func (w *leasedWork) handle(ctx context.Context, run *lease.Run) (string, error) {
	reserved, err := lease.Call(ctx, run, "reserve", func(context.Context, string) (string, error) { return "r", nil }, lease.CallPolicy{})
	if err != nil {
		return "", err
	}
	paid, err := lease.Call(ctx, run, "charge", func(_ context.Context, key string) (string, error) {
		w.keys = append(w.keys, key)
		if w.loses {
			return "", errors.New("no answer")
		}
		return reserved + " paid", nil
	}, lease.CallPolicy{})
	if err != nil || !w.mails {
		return paid, err
	}
	return lease.Call(ctx, run, "mail", func(context.Context, string) (string, error) { return paid, nil }, lease.CallPolicy{})
}

func (w *leasedWork) do(key string) (once.Result[string], error) {
	return once.Do(w.t.Context(), w.engine(), once.Operation{Scope: "s", Key: key, Fingerprint: once.FingerprintOf([]byte("a"))}, w.handle)
}

// unknown leaves the operation with this key unknown, and returns the key of its call.
func (w *leasedWork) unknown(key string) string {
	w.t.Helper()
	w.loses = true
	if _, err := w.do(key); once.CodeOf(err) != once.CodeUnknown {
		w.t.Fatalf("%s: %v", key, err)
	}
	w.loses = false
	return w.keys[len(w.keys)-1]
}

// calling is the id of the call that is unknown, as once keys show tells it.
func calling(t *testing.T, url, key string) string {
	t.Helper()
	var a operate.KeyView
	o := run(t, "keys", "show", key, "--db", url, "-o", "json").want(t, 0)
	if err := json.Unmarshal([]byte(o.stdout), &a); err != nil {
		t.Fatal(err)
	}
	return a.CallID
}

// TestKeysResolve: an operator decides what only a person can know. The records are those of package lease.
func TestKeysResolve(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		w := &leasedWork{opened: open(t, url), t: t}
		resolve := func(key string, args ...string) output {
			t.Helper()
			return run(t, append([]string{"keys", "resolve", key, "--db", url, "--scope", "s", "--reason", "asked the bank", "--by", "ada"}, args...)...)
		}
		call := func(key string) []string { return []string{"--call", calling(t, url, key)} }
		result := filepath.Join(t.TempDir(), "result.json")
		if err := os.WriteFile(result, []byte("\"paid late\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}

		called := w.unknown("result")
		o := run(t, "keys", "show", "result", "--db", url).want(t, 0)
		now := call("result")
		for _, s := range []string{"unknown: ", "phases       reserve: done", "charge: the call has begun, and its outcome is unknown", "charge, with the key " + called + " at the service", "only an operator can find out", "once keys resolve result --scope s --call " + now[1], "--call-result FILE"} {
			if !strings.Contains(o.stdout, s) {
				t.Errorf("keys show does not say %q:\n%s", s, o.stdout)
			}
		}
		var shown operate.KeyView
		o = run(t, "keys", "show", "result", "--db", url, "-o", "json").want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &shown); err != nil || shown.Call == nil || shown.Call.Phase != "charge" || shown.Call.Key != called || shown.Call.Repeats || len(shown.Phases) != 1 || shown.CallID != now[1] {
			t.Errorf("%v, %s", err, o.stdout)
		}
		const effect = "unknown, fence 3: a retry gets this result; the code after the call charge does NOT run\n"
		o = resolve("result", append(now, "--result", result)...).want(t, 0)
		if o.stdout != "phase     reserve: done\nphase     charge: the call has begun, and its outcome is unknown\nwould do  "+effect || !strings.HasSuffix(o.stderr, "the command has changed nothing. Try: the same command with --yes\n") {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
		if _, err := w.do("result"); once.CodeOf(err) != once.CodeUnknown {
			t.Errorf("after a preview: %v", err)
		}
		golden(t, resolve("result", append(now, "--result", result, "--yes")...).want(t, 0).stdout, "resolved: "+effect)
		if r, err := w.do("result"); err != nil || r.Value != "paid late" || !r.Replayed {
			t.Errorf("%+v, %v", r, err)
		}
		o = resolve("result", append(now, "--result", result, "--yes")...).want(t, 0)
		if !strings.HasPrefix(o.stdout, "this call was resolved before, and the command has changed nothing: by ada at 2") || !strings.HasSuffix(o.stdout, ": unknown, fence 3, call "+now[1]+": a result of 11 bytes, in call charge\n") {
			t.Errorf("%s", o.stdout)
		}
		o = resolve("result", append(now, "--failed", "no", "--yes")...).want(t, 1)
		if !strings.Contains(o.stderr, "another decision about this call was stored before, by ada at ") || !strings.Contains(o.stderr, ": a result of 11 bytes, in call charge. The command has changed nothing") {
			t.Errorf("%s", o.stderr)
		}
		o = run(t, "keys", "show", "result", "--db", url).want(t, 0)
		if !strings.Contains(o.stdout, "reserve: done") || !strings.Contains(o.stdout, "charge: the call had begun when an operator ended the operation") || strings.Contains(o.stdout, "Try: ") {
			t.Errorf("%s", o.stdout)
		}

		w.mails = true
		w.unknown("on")
		now = call("on")
		o = resolve("on", append(now, "--call-result", result)...).want(t, 0)
		if !strings.Contains(o.stdout, "would do  unknown, fence 3: the call charge has returned this value; the next retry or a completer continues the operation after this call\n") {
			t.Errorf("%s", o.stdout)
		}
		resolve("on", append(now, "--call-result", result, "--yes")...).want(t, 0)
		if r, err := w.do("on"); err != nil || r.Value != "paid late" || r.Replayed {
			t.Errorf("%+v, %v", r, err)
		}
		if o = resolve("on", append(now, "--call-result", result, "--yes")...).want(t, 0); !strings.HasPrefix(o.stdout, "this call was resolved before") {
			t.Errorf("%s", o.stdout)
		}
		o = run(t, "keys", "show", "on", "--db", url).want(t, 0)
		if !strings.Contains(o.stdout, "phases       reserve: done\n             charge: done: an operator has entered the result of the phase\n             mail: done\n") {
			t.Errorf("%s", o.stdout)
		}
		w.mails = false

		w.unknown("failed")
		o = resolve("failed", append(call("failed"), "--failed", "the bank has cancelled it", "--retain", "90h")...).want(t, 0)
		if !strings.Contains(o.stderr, "WARNING: the writes of the operation up to reserve stay committed.") {
			t.Errorf("%s", o.stderr)
		}
		var a struct {
			Resolved  bool
			Operation operate.Operation
		}
		o = resolve("failed", append(call("failed"), "--failed", "the bank has cancelled it", "--retain", "90h", "--yes", "-o", "json")...).want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &a); err != nil || !a.Resolved || a.Operation.State != "done" || a.Operation.Fence != 4 || a.Operation.ExpiresAt.Sub(a.Operation.Since).Round(time.Hour) != 90*time.Hour {
			t.Errorf("%v, %s", err, o.stdout)
		}
		if _, err := w.do("failed"); !isFailure(err, "OPERATION.not_applied", "the bank has cancelled it") {
			t.Errorf("%v", err)
		}

		w.cfg.HashKeys = true
		called = w.unknown("again")
		o = resolve("again", append(call("again"), "--run-again")...).want(t, 0)
		if !strings.Contains(o.stderr, "WARNING: the call may take effect twice, unless the service executes each key only one time and still remembers the key "+called+". The program does not declare") {
			t.Errorf("%s", o.stderr)
		}
		named := call("again")[1]
		resolve("again", append(call("again"), "--run-again", "--yes")...).want(t, 0)
		if r, err := w.do("again"); err != nil || r.Value != "r paid" || w.keys[len(w.keys)-1] != called {
			t.Errorf("%+v, %v, %q", r, err, w.keys)
		}
		o = run(t, "keys", "show", "again", "--db", url).want(t, 0)
		if !strings.Contains(o.stdout, "resolve by ada  asked the bank  unknown, fence 3, call "+named+": call charge is made again under the same key") {
			t.Errorf("%s", o.stdout)
		}
		w.cfg.HashKeys = false

		called = w.unknown("voided")
		o = resolve("voided", append(call("voided"), "--run-again", "--voided")...).want(t, 0)
		if !strings.Contains(o.stderr, "unless the service refuses the key "+called+" from now on") {
			t.Errorf("%s", o.stderr)
		}
		resolve("voided", append(call("voided"), "--run-again", "--voided", "--yes")...).want(t, 0)
		if r, err := w.do("voided"); err != nil || r.Value != "r paid" || w.keys[len(w.keys)-1] != lease.Key("s", "voided", "charge", 1) {
			t.Errorf("%+v, %v, %q", r, err, w.keys)
		}

		var page operate.Page[operate.Entry]
		o = run(t, "audit", "list", "--scope", "s", "-o", "json", "--db", url).want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &page); err != nil {
			t.Fatal(err)
		}
		entries := slices.DeleteFunc(page.Items, func(e operate.Entry) bool { return e.Action == "show" })
		want := []string{"call charge is made again under a new key", "call charge is made again under the same key", "failed as OPERATION.not_applied, in call charge", "call charge has returned 11 bytes, and the operation goes on", "a result of 11 bytes, in call charge"}
		for i, e := range entries {
			if len(entries) != len(want) || e.Action != "resolve" || e.Who != "ada" || e.Reason != "asked the bank" || !strings.HasPrefix(e.Detail, "unknown, fence 3, call ") || !strings.HasSuffix(e.Detail, ": "+want[i]) {
				t.Errorf("%+v", e)
			}
		}
	})
}

func isFailure(err error, code, message string) bool {
	f := (*once.Failure)(nil)
	return errors.As(err, &f) && f.Code == code && f.Message == message
}

// TestKeysResolveRefuses: what can go on without a person is left alone.
func TestKeysResolveRefuses(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, url string) {
		t.Helper()
		w := &leasedWork{opened: open(t, url), t: t}
		put := func(key string, state store.State, lease time.Duration, data string) {
			t.Helper()
			_, err := w.Swap(t.Context(), store.Change{
				ID: store.ID{Scope: "s", Key: key}, Lease: lease,
				Next: store.Record{State: state, Fence: 1, Nonce: make([]byte, 16), CallStarted: data != "", Data: []byte(data)},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.do("done"); err != nil {
			t.Fatal(err)
		}
		w.unknown("unknown")
		rec, err := w.Read(t.Context(), store.ID{Scope: "s", Key: "unknown"})
		if err != nil {
			t.Fatal(err)
		}
		put("running", store.StateRunning, time.Hour, string(rec.Data))
		put("dead", store.StateRunning, time.Microsecond, string(rec.Data))
		put("idle", store.StateRunning, time.Microsecond, "")
		put("foreign", store.StateUnknown, 0, "x")
		put("plain", store.StateUnknown, 0, "")
		w.unknown("other")
		file, json1 := filepath.Join(t.TempDir(), "answer.html"), filepath.Join(t.TempDir(), "one.json")
		if err := os.WriteFile(json1, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("<html>no JSON"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ args, says string }{
			{"done --run-again", "the operation is done, not unknown"},
			{"running --run-again", "the operation is running, not unknown"},
			{"idle --run-again", "the operation needs no decision: a retry continues the operation"},
			{"absent --run-again", "no operation with this key"},
			{"foreign --run-again", "cannot be read"},
			{"plain --run-again --voided", "KeyVoided, but the operation has no call"},
			{"unknown --result " + file, "is not JSON"},
			{"unknown --call-result " + file, "is not JSON"},
			{"other --run-again", `the call ID "00000000", but the unknown outcome belongs to call charge, `},
			{"plain --call-result " + json1, "CallValue, but the operation has no call"},
			{"unknown --result " + file + ".none", "no such file"},
		} {
			key, _, _ := strings.Cut(c.args, " ")
			call, code := "none", 3
			if key != "absent" {
				call, code = cmp.Or(calling(t, url, key), call), 1
			}
			if key == "other" {
				call = "00000000"
			}
			o := run(t, append(strings.Fields("keys resolve --db "+url+" --scope s --reason r --yes --call "+call), strings.Fields(c.args)...)...).want(t, code)
			if !strings.Contains(o.stderr, c.says) || !strings.Contains(o.stderr, "\nTry: ") || o.stdout != "" {
				t.Errorf("%s:\n%s%s", c.args, o.stdout, o.stderr)
			}
		}
		// An owner has died in a call, and no caller has come since to store that its outcome is unknown.
		if o := run(t, "keys", "show", "dead", "--db", url).want(t, 0); !strings.Contains(o.stdout, "the lease has ended during a call to another service, and the call may have taken effect: no retry repeats the call, and an operator must decide its outcome") {
			t.Errorf("%s", o.stdout)
		}
		again := append(strings.Fields("keys resolve dead --db "+url+" --call "+calling(t, url, "dead")+" --scope s --reason r --run-again"), "--yes")
		if o := run(t, again...).want(t, 0); !strings.Contains(o.stdout, "resolved: running, fence 1: the operation makes the call charge again") {
			t.Errorf("%s", o.stdout)
		}
		plain := strings.Fields("keys resolve plain --db " + url + " --call " + calling(t, url, "plain") + " --scope s --reason r --run-again")
		if o := run(t, plain...).want(t, 0); !strings.Contains(o.stderr, "WARNING: a retry of this operation will execute the operation again") {
			t.Errorf("%s", o.stderr)
		}
		golden(t, run(t, append(plain, "--yes")...).want(t, 0).stdout, "resolved: unknown, fence 1: the key is new again: a retry executes the operation\n")
		again = slices.Concat(plain, []string{"--yes"})
		if o := run(t, again...).want(t, 0); !strings.HasPrefix(o.stdout, "this call was resolved before") {
			t.Errorf("%s", o.stdout)
		}
		run(t, "keys", "show", "plain", "--db", url).want(t, 3)
	}
	t.Run("SQLite", func(t *testing.T) { test(t, sqliteURL(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, testenv.NewDatabase(t)) })
}

// TestKeysResolveOverHTTP: clients of an HTTP route get an answer.
func TestKeysResolveOverHTTP(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	w := &leasedWork{opened: open(t, url), t: t}
	h := oncehttp.Handler(w.engine(), oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Route: func(*http.Request) string { return "POST /x" }},
		func(rw http.ResponseWriter, r *http.Request, run *lease.Run) {
			_, err := w.handle(r.Context(), run)
			oncehttp.Fail(rw, r, err)
		})
	post := func(key string) *httptest.ResponseRecorder {
		rw, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/x", strings.NewReader("x"))
		r.Header.Set("Idempotency-Key", key)
		h.ServeHTTP(rw, r)
		return rw
	}
	file := filepath.Join(t.TempDir(), "answer.json")
	if err := os.WriteFile(file, []byte(`{"id":7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.loses = true
	for key, args := range map[string]string{"happened": "--result " + file + " --status 201", "failed": "--failed cancelled --status 422"} {
		if rw := post(key); rw.Code != http.StatusConflict || !strings.Contains(rw.Body.String(), string(oncehttp.ProblemUnknown)) {
			t.Fatalf("%d %s", rw.Code, rw.Body)
		}
		resolve := []string{"keys", "resolve", key, "--call", calling(t, url, key), "--db", url, "--scope", "global POST /x", "--reason", "r"}
		without, _, _ := strings.Cut(args, " --status")
		if o := run(t, append(resolve, strings.Fields(without)...)...).want(t, 0); !strings.Contains(o.stderr, "Without --status, HTTP clients never get") {
			t.Errorf("%s", o.stderr)
		}
		if o := run(t, append(resolve, strings.Fields(args)...)...).want(t, 0); strings.Contains(o.stderr, "Without --status") {
			t.Errorf("%s", o.stderr)
		}
		run(t, append(append(resolve, "--yes"), strings.Fields(args)...)...).want(t, 0)
	}
	if rw := post("happened"); rw.Code != http.StatusCreated || rw.Body.String() != `{"id":7}` || rw.Header().Get("Content-Type") != "application/json" || rw.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s %v", rw.Code, rw.Body, rw.Header())
	}
	if rw := post("failed"); rw.Code != http.StatusUnprocessableEntity || !strings.Contains(rw.Body.String(), `"detail":"cancelled"`) || !strings.Contains(rw.Body.String(), `"safe_new_key":false`) {
		t.Errorf("%d %s", rw.Code, rw.Body)
	}
}
