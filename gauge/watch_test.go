package gauge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// run runs w until the test is over.
func run(t *testing.T, w *gauge.Watch) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func texts(values []gauge.Value) (list []string) {
	for _, v := range values {
		list = append(list, strings.TrimPrefix(fmt.Sprintf("%s %s %v", v.Name, v.Label, v.Number), "once_"))
	}
	return list
}

func want(t *testing.T, w *gauge.Watch, lines ...string) {
	t.Helper()
	if got := texts(w.Values()); !slices.Equal(got, lines) {
		t.Errorf("%q, want %q", got, lines)
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestWatchKeepsTheLastValues: who reads values asks no source.
func TestWatchKeepsTheLastValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := gauge.NewWatch(gauge.Config{}, gauge.Func(func(context.Context) ([]gauge.Value, error) {
			asked++
			return []gauge.Value{{Name: gaugename.DeadLetters, Number: float64(asked)}}, nil
		}))
		want(t, w, "watch_age_seconds  0")
		run(t, w)
		synctest.Wait()
		for range 10 {
			want(t, w, "dead_letters  1", "watch_age_seconds  0")
		}
		pass(gauge.DefaultEvery)
		want(t, w, "dead_letters  2", "watch_age_seconds  0")
		pass(gauge.DefaultEvery - time.Second)
		want(t, w, "dead_letters  2", "watch_age_seconds  14")
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestStaleGaugesAreDropped: values of a source that does not answer are missing after three rounds, and come back
// with its next answer. Other sources are not affected.
func TestStaleGaugesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var down atomic.Bool
		failing := gauge.Func(func(ctx context.Context) ([]gauge.Value, error) {
			if down.Load() {
				<-ctx.Done() // the database does not answer
				return nil, ctx.Err()
			}
			return []gauge.Value{{Name: gaugename.DeadLetters, Number: 1}}, nil
		})
		well := gauge.Func(func(context.Context) ([]gauge.Value, error) {
			return []gauge.Value{{Name: gaugename.CacheBytes, Number: 5}}, nil
		})
		w := gauge.NewWatch(gauge.Config{Every: 10 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}, failing, well)
		run(t, w)
		synctest.Wait()
		down.Store(true)
		pass(30 * time.Second)
		want(t, w, "cache_bytes  5", "dead_letters  1", "watch_age_seconds  30")
		pass(time.Second)
		want(t, w, "cache_bytes  5", "watch_age_seconds  31")
		down.Store(false)
		pass(10 * time.Second)
		want(t, w, "cache_bytes  5", "dead_letters  1", "watch_age_seconds  1")
		if n := strings.Count(log.String(), "a source of gauges has failed"); n != 1 || !strings.Contains(log.String(), "Try: ") {
			t.Errorf("%d warnings: %s", n, log.String())
		}
	})
}

// TestASourceThatNeverAnswers: the age tells.
func TestASourceThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := gauge.NewWatch(gauge.Config{Log: slog.New(slog.DiscardHandler)}, gauge.Func(func(context.Context) ([]gauge.Value, error) { return nil, errors.New("no table") }))
		run(t, w)
		pass(time.Hour)
		want(t, w, "watch_age_seconds  3600")
	})
}

// TestAgeTellsThatAWatchDoesNotRun: a program that has forgotten Run has no gauges, and an age that grows.
func TestAgeTellsThatAWatchDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := gauge.NewWatch(gauge.Config{}, gauge.Func(func(context.Context) ([]gauge.Value, error) { return nil, nil }))
		pass(time.Hour)
		want(t, w, "watch_age_seconds  3600")
		run(t, w)
		synctest.Wait()
		want(t, w, "watch_age_seconds  0")
	})
}

// TestGaugesOfSeveralSources: counts of several databases are added, of ages the highest counts, and of a
// budget that two know the lower one.
func TestGaugesOfSeveralSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := func(n float64) gauge.Source {
			return gauge.Func(func(context.Context) ([]gauge.Value, error) {
				return []gauge.Value{
					{Name: gaugename.OutboxMessages, Number: n}, {Name: gaugename.OutboxOldestAge, Number: n},
					{Name: gaugename.RetryBudgetBalance, Label: "api", Number: n}, {Name: "once_of_a_newer_version", Number: n},
				}, nil
			})
		}
		w := gauge.NewWatch(gauge.Config{}, source(3), source(4))
		run(t, w)
		synctest.Wait()
		want(t, w, "outbox_messages  7", "outbox_oldest_age_seconds  4", "retry_budget_balance api 3", "watch_age_seconds  0")
	})
}

// TestGaugesHaveBoundedLabels: 10,000 destinations are 101 series, and the worst budget of those without a series
// of their own is seen.
func TestGaugesHaveBoundedLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := gauge.NewWatch(gauge.Config{}, gauge.Func(func(context.Context) (values []gauge.Value, _ error) {
			for i := range 10_000 {
				values = append(values, gauge.Value{Name: gaugename.RetryBudgetBalance, Label: strconv.Itoa(i), Number: float64(20_000 - i)})
			}
			return values, nil
		}))
		run(t, w)
		synctest.Wait()
		values := w.Values()
		if n := len(values); n != 102 {
			t.Errorf("%d series, want 100 destinations, one for the others and the age", n)
		}
		if v := (gauge.Value{Name: gaugename.RetryBudgetBalance, Label: "other", Number: 10_001}); !slices.Contains(values, v) {
			t.Errorf("%v is missing in %v", v, values)
		}
	})
}

// TestInstrumentsOfGauges: names are those of Prometheus, each once.
func TestInstrumentsOfGauges(t *testing.T) {
	seen := map[string]bool{}
	for _, in := range gauge.Instruments() {
		if seen[in.Name] || seen[in.OTel] || in.Help == "" || in.Unit == "" || !strings.HasPrefix(in.Name, "once_") || !strings.HasPrefix(in.OTel, "once.") {
			t.Errorf("%+v", in)
		}
		seen[in.Name], seen[in.OTel] = true, true
		if in.Grows != strings.HasSuffix(in.Name, "_total") {
			t.Errorf("%s grows: %v", in.Name, in.Grows)
		}
		if (in.Unit == "s") != strings.HasSuffix(in.Name, "_seconds") {
			t.Errorf("%s has the unit %q", in.Name, in.Unit)
		}
	}
}

// TestWatchTakesSourcesUntilItRuns: what is added before is asked, and later it is too late, which is said.
func TestWatchTakesSourcesUntilItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := gauge.NewWatch(gauge.Config{})
		asked := false
		source := gauge.Func(func(context.Context) ([]gauge.Value, error) { asked = true; return nil, nil })
		w.Add(source)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, "Try: call Add before Run") {
					t.Errorf("a source that is added later: %q", p)
				}
			}()
			w.Add(source)
		}()
		cancel()
		<-ended
		if !asked {
			t.Error("a source was not asked")
		}
	})
}
