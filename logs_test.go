package once_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/webhook"
)

// observersThatLog sends each logged event, with all its fields, to each observer that writes to a logger.
var observersThatLog = map[string]func(context.Context, *slog.Logger){
	"once": func(ctx context.Context, l *slog.Logger) {
		for _, e := range []once.EventType{once.EventClaimed, once.EventWaiting, once.EventRerun, once.EventInDoubt, once.EventSettled, once.EventEffectOutsideTx, once.EventFinished} {
			once.Log(l).Observe(ctx, filled(once.Event{Type: e}))
		}
	},
	"outbox": func(ctx context.Context, l *slog.Logger) {
		o := outbox.Log(l)
		for _, e := range []outbox.EventType{outbox.EventDelivered, outbox.EventFailed, outbox.EventStopped, outbox.EventUnavailable, outbox.EventDatabase, outbox.EventBacklog, outbox.EventTaken} {
			o.Observe(ctx, filled(outbox.Event{Type: e}))
		}
		outage(func() { o.Observe(ctx, filled(outbox.Event{Type: outbox.EventDatabase})) }, func() { o.Observe(ctx, filled(outbox.Event{Type: outbox.EventDelivered})) })
	},
	"inbox": func(ctx context.Context, l *slog.Logger) {
		o := inbox.Log(l)
		for _, e := range []inbox.EventType{inbox.EventApplied, inbox.EventFailed, inbox.EventDeadLettered, inbox.EventGap, inbox.EventDatabase, inbox.EventSameBody} {
			o.Observe(ctx, filled(inbox.Event{Type: e}))
		}
		outage(func() { o.Observe(ctx, filled(inbox.Event{Type: inbox.EventDatabase})) }, func() { o.Observe(ctx, filled(inbox.Event{Type: inbox.EventApplied})) })
	},
	"retry": func(ctx context.Context, l *slog.Logger) {
		for _, e := range []retry.EventType{retry.EventFailed, retry.EventEnded} {
			retry.Log(l)(ctx, filled(retry.Event{Type: e}))
		}
	},
	"webhook": func(ctx context.Context, l *slog.Logger) {
		o := webhook.LogRelay(l)
		for _, e := range []webhook.RelayEventType{webhook.EventFailed, webhook.EventSealed, webhook.EventUnsealed, webhook.EventRanOut, webhook.EventCircuit, webhook.EventDisabled, webhook.EventOurs, webhook.EventDatabase} {
			o.Observe(ctx, filled(webhook.RelayEvent{Type: e}))
		}
		outage(func() { o.Observe(ctx, filled(webhook.RelayEvent{Type: webhook.EventDatabase})) }, func() { o.Observe(ctx, filled(webhook.RelayEvent{Type: webhook.EventDelivered})) })
	},
	"saga": func(ctx context.Context, l *slog.Logger) {
		o := saga.Log(l)
		for _, e := range []saga.EventType{saga.EventCompleted, saga.EventStuck, saga.EventTurned, saga.EventRetried, saga.EventHanging, saga.EventChanged, saga.EventLeft, saga.EventInterrupted, saga.EventDatabase} {
			o.Observe(ctx, filled(saga.Event{Type: e}))
		}
		outage(func() { o.Observe(ctx, filled(saga.Event{Type: saga.EventDatabase})) }, func() { o.Observe(ctx, filled(saga.Event{Type: saga.EventCompleted})) })
	},
}

// outage lets a worker fail for a while, so that its log omits lines and then says how many. Then the worker works again.
func outage(fail, work func()) {
	for range 100 {
		fail()
		<-time.After(time.Second)
	}
	<-time.After(10 * time.Second)
	work()
}

var attributeRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([a-z`, ]+) \\| [^|]+ \\|$")

// TestLogAttributesAreThoseOfTheTable: the names in docs/logs.md are those that the observers write, and there are no others.
func TestLogAttributesAreThoseOfTheTable(t *testing.T) {
	page, err := os.ReadFile("docs/logs.md")
	must(t, err)
	table := map[string][]string{}
	for _, row := range attributeRow.FindAllStringSubmatch(string(page), -1) {
		for log := range strings.SplitSeq(strings.ReplaceAll(row[2], "`", ""), ", ") {
			table[log] = append(table[log], row[1])
		}
	}
	for log, observe := range observersThatLog {
		if log == "webhook" { // two of its attributes share a row
			continue
		}
		written := map[string]bool{}
		synctest.Test(t, func(t *testing.T) {
			observe(t.Context(), slog.New(slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				written[a.Key] = true
				return a
			}})))
		})
		for _, own := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
			delete(written, own)
		}
		got, want := slices.Sorted(maps.Keys(written)), slices.Sorted(slices.Values(table[log]))
		if !slices.Equal(got, want) || len(got) < 5 {
			t.Errorf("%s writes\n%q\nand the table has\n%q", log, got, want)
		}
	}
}

// TestLogMessagesAreThoseOfTheTable: docs/logs.md has each message at level Info and above.
func TestLogMessagesAreThoseOfTheTable(t *testing.T) {
	page, err := os.ReadFile("docs/logs.md")
	must(t, err)
	written := 0
	for _, observe := range observersThatLog {
		synctest.Test(t, func(t *testing.T) {
			observe(t.Context(), slog.New(slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.MessageKey {
					if written++; !strings.Contains(string(page), "`"+a.Value.String()+"`") {
						t.Errorf("the table has no message %q", a.Value)
					}
				}
				return a
			}})))
		})
	}
	if written < 20 {
		t.Errorf("only %d messages were written", written)
	}
}

// keyOfClient is the key in the errors of filled events.
const keyOfClient = "a-key-of-a-client"

// TestNoLogHasAKeyOfAClient: each error in a log names its operation by the hash of the key.
func TestNoLogHasAKeyOfAClient(t *testing.T) {
	want := once.KeyHash(keyOfClient)
	logs := maps.Clone(observersThatLog)
	logs["lease.Completer"] = logOfCompleter(t)
	for name, observe := range logs {
		var out bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			observe(t.Context(), slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		})
		if got := out.String(); strings.Contains(got, keyOfClient) || !strings.Contains(got, want) {
			t.Errorf("%s writes\n%s\nwant the hash %s and not the key %s", name, got, want, keyOfClient)
		}
	}
}

// logOfCompleter returns a function that lets a Completer log the error of an operation that fails.
func logOfCompleter(t *testing.T) func(context.Context, *slog.Logger) {
	t.Helper()
	box, err := once.NewEncrypter(make([]byte, 32))
	must(t, err)
	return func(ctx context.Context, l *slog.Logger) {
		s := memstore.New()
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		ctx, cancel := context.WithCancel(ctx)
		handler := func(ctx context.Context, op once.Operation) error {
			_, err := once.Do(ctx, e, op, func(ctx context.Context, r *lease.Run) (string, error) {
				_, err := lease.InTx(ctx, r, s, "a", func(context.Context, tx) (string, error) { return "", nil })
				return "", cmp.Or(err, errors.New("the printer is on fire"))
			})
			return err
		}
		_ = handler(ctx, once.Operation{Scope: "s", Key: keyOfClient, Request: []byte("r")}) // fails
		time.AfterFunc(time.Minute, cancel)
		must(t, lease.Completer{Store: leased, Encrypter: box, Log: l, Handlers: lease.Handlers{"": handler}}.Run(ctx))
		<-time.After(time.Minute) // the heartbeats end
	}
}

// TestAnOutageIsLoggedOnceAMinute: workers in the background try again several times a second while the database or a destination is down. None of them
// floods the log, and each says when the outage is over.
func TestAnOutageIsLoggedOnceAMinute(t *testing.T) {
	down := errors.New("connection refused")
	last := map[string]string{
		"outbox": "outbox: the database answers again", "topic": "outbox: the destination of the topic accepts messages again", "inbox": "inbox: the database answers again",
		"saga": "the runner reads the due sagas from the database again", "webhook": "webhook: the database answers again",
	}
	events := map[string]func(*slog.Logger) (fail, work func()){
		"outbox": func(l *slog.Logger) (fail, work func()) {
			o := outbox.Log(l)
			return func() { o.Observe(t.Context(), outbox.Event{Type: outbox.EventDatabase, Err: down}) },
				func() { o.Observe(t.Context(), outbox.Event{Type: outbox.EventBacklog}) }
		},
		"topic": func(l *slog.Logger) (fail, work func()) {
			o, m := outbox.Log(l), message.Message{Topic: "orders"}
			return func() { o.Observe(t.Context(), outbox.Event{Type: outbox.EventUnavailable, Message: m, Err: down}) },
				func() { o.Observe(t.Context(), outbox.Event{Type: outbox.EventDelivered, Message: m}) }
		},
		"inbox": func(l *slog.Logger) (fail, work func()) {
			o := inbox.Log(l)
			return func() { o.Observe(t.Context(), inbox.Event{Type: inbox.EventDatabase, Err: down}) },
				func() { o.Observe(t.Context(), inbox.Event{Type: inbox.EventApplied}) }
		},
		"saga": func(l *slog.Logger) (fail, work func()) {
			o := saga.Log(l)
			return func() { o.Observe(t.Context(), saga.Event{Type: saga.EventDatabase, Err: down}) },
				func() { o.Observe(t.Context(), saga.Event{Type: saga.EventTaken}) }
		},
		"webhook": func(l *slog.Logger) (fail, work func()) {
			o := webhook.LogRelay(l)
			return func() { o.Observe(t.Context(), webhook.RelayEvent{Type: webhook.EventDatabase, Err: down}) },
				func() { o.Observe(t.Context(), webhook.RelayEvent{Type: webhook.EventDelivered}) }
		},
	}
	for name, worker := range events {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				fail, work := worker(slog.New(slog.NewTextHandler(&out, nil)))
				fail()
				if n := strings.Count(out.String(), "connection refused"); n != 1 {
					t.Errorf("%d lines immediately, want 1", n)
				}
				outage(fail, work)
				if n := strings.Count(out.String(), "connection refused"); n != 2 || !strings.Contains(out.String(), "omitted=60") {
					t.Errorf("%d lines in 100 seconds, want 2, the second one with omitted=60:\n%s", n, &out)
				}
				if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), last[name]) || !strings.Contains(out.String(), "lasted=1m39s") {
					t.Errorf("%d lines, want 3, the last one %q after 99 s:\n%s", n, last[name], &out)
				}
			})
		})
	}
}

// filled returns an event in which every field is set that is not.
func filled[E any](e E) E {
	fill(reflect.ValueOf(&e).Elem(), "")
	return e
}

func fill(v reflect.Value, name string) {
	switch {
	case v.Kind() != reflect.Struct && !v.IsZero():
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
	case v.Type() == reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(fmt.Errorf("x: %w", &once.Error{Scope: "x", Key: keyOfClient, Err: errors.New("x")})))
	case name == "Trace":
		v.SetString(traceparent)
	case name == "Headers":
		v.Set(reflect.ValueOf(map[string]string{message.HeaderKeyHash: once.KeyHash("k")}))
	case name == "Outcome":
		v.SetString(string(once.CodeFailed))
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), "")
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), v.Type().Field(i).Name)
			}
		}
	}
}
