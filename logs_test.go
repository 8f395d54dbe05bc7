package once_test

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/saga"
)

var attributeRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([a-z, ]+) \\| [^|]+ \\|$")

// TestLogAttributesAreThoseOfTheTable: the names in docs/logs.md are those that the observers write, and there are no others.
func TestLogAttributesAreThoseOfTheTable(t *testing.T) {
	page, err := os.ReadFile("docs/logs.md")
	must(t, err)
	table := map[string][]string{}
	for _, row := range attributeRow.FindAllStringSubmatch(string(page), -1) {
		for log := range strings.SplitSeq(row[2], ", ") {
			table[log] = append(table[log], row[1])
		}
	}
	for log, observe := range map[string]func(*slog.Logger){
		"once": func(l *slog.Logger) {
			for _, e := range []once.EventType{once.EventClaimed, once.EventWaiting, once.EventRerun, once.EventInDoubt, once.EventSettled, once.EventEffectOutsideTx, once.EventFinished} {
				once.Log(l).Observe(t.Context(), filled(once.Event{Type: e}))
			}
		},
		"outbox": func(l *slog.Logger) {
			for _, e := range []outbox.EventType{outbox.EventDelivered, outbox.EventFailed, outbox.EventStopped, outbox.EventUnavailable, outbox.EventDatabase, outbox.EventBacklog, outbox.EventTaken} {
				outbox.Log(l).Observe(t.Context(), filled(outbox.Event{Type: e}))
			}
		},
		"inbox": func(l *slog.Logger) {
			for _, e := range []inbox.EventType{inbox.EventApplied, inbox.EventFailed, inbox.EventDeadLettered, inbox.EventGap, inbox.EventDatabase, inbox.EventSameBody} {
				inbox.Log(l).Observe(t.Context(), filled(inbox.Event{Type: e}))
			}
		},
		"retry": func(l *slog.Logger) {
			for _, e := range []retry.EventType{retry.EventFailed, retry.EventEnded} {
				retry.Log(l)(t.Context(), filled(retry.Event{Type: e}))
			}
		},
		"saga": func(l *slog.Logger) {
			for _, e := range []saga.EventType{saga.EventCompleted, saga.EventStuck, saga.EventTurned, saga.EventRetried, saga.EventHanging, saga.EventChanged, saga.EventLeft, saga.EventInterrupted, saga.EventDatabase} {
				saga.Log(l).Observe(t.Context(), filled(saga.Event{Type: e}))
			}
		},
	} {
		written := map[string]bool{}
		observe(slog.New(slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			written[a.Key] = true
			return a
		}})))
		for _, own := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
			delete(written, own)
		}
		got, want := slices.Sorted(maps.Keys(written)), slices.Sorted(slices.Values(table[log]))
		if !slices.Equal(got, want) || len(got) < 5 {
			t.Errorf("%s writes\n%q\nand the table has\n%q", log, got, want)
		}
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
		v.Set(reflect.ValueOf(errors.New("x")))
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
