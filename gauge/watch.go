package gauge

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/base/label"
)

// The constants are the defaults of fields of [Config].
const (
	DefaultEvery   = 15 * time.Second
	DefaultTimeout = 5 * time.Second
)

// Config configures a [Watch].
type Config struct {
	// Every is the time between two calls of each source. Default: 15 s, the interval of most scrapes.
	Every time.Duration

	// Timeout is the longest time that one call of a source may take. Default: 5 s. If Timeout is longer than Every, the value of Every applies instead.
	Timeout time.Duration

	// Log gets a warning when a source fails. While the source continues to fail, the warning is not repeated. Default: [slog.Default].
	Log *slog.Logger
}

// rounds is how long the values of a source stay valid without a new answer, in multiples of Config.Every.
const rounds = 3

// Watch calls sources in the background and keeps their last values.
type Watch struct {
	cfg     Config
	mu      sync.Mutex // protects sources and running
	sources []*watched
	running bool
	labels  map[string]*label.Set // by the name of the label
}

// watched is a source and its last answer.
type watched struct {
	Source

	mu      sync.Mutex
	values  []Value
	since   time.Time // when the watch was made
	at      time.Time // when the source has answered
	failing bool
}

// NewWatch returns a Watch that calls the given sources. The Watch calls no source before [Watch.Run] runs.
func NewWatch(cfg Config, sources ...Source) *Watch {
	if cfg.Every < 0 || cfg.Timeout < 0 {
		panic("gauge: NewWatch: Every " + cfg.Every.String() + " and Timeout " + cfg.Timeout.String() + " must not be negative")
	}
	cfg.Every = cmp.Or(cfg.Every, DefaultEvery)
	cfg.Timeout = min(cmp.Or(cfg.Timeout, DefaultTimeout), cfg.Every)
	w := &Watch{cfg: cfg, labels: map[string]*label.Set{}}
	for _, in := range instruments {
		if in.Label != "" {
			w.labels[in.Label] = new(label.Set)
		}
	}
	w.Add(sources...)
	return w
}

// Add adds sources to the watch; call Add before [Watch.Run]. Use Add if the watch, the metrics and the engine
// depend on each other: make the watch, make the metrics with the watch, make the engine with the metrics, and
// then add the engine to the watch.
func (w *Watch) Add(sources ...Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		panic("gauge: Watch.Add was called after Run. Try: call Add before Run")
	}
	now := time.Now()
	for i, s := range sources {
		if s == nil {
			panic("gauge: Watch: source " + strconv.Itoa(i+1) + " is nil")
		}
		w.sources = append(w.sources, &watched{Source: s, since: now})
	}
}

// all returns the sources of the watch.
func (w *Watch) all() []*watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sources
}

// Run calls the sources until ctx ends. Each source has its own goroutine, so a source that hangs does not
// delay other sources. Run returns the error of ctx after all calls have returned.
func (w *Watch) Run(ctx context.Context) error {
	w.mu.Lock()
	w.running = true
	w.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range w.all() {
		all.Go(func() { w.watch(ctx, s) })
	}
	<-ctx.Done()
	all.Wait()
	return ctx.Err()
}

// watch asks one source until ctx ends, even if the source fails.
func (w *Watch) watch(ctx context.Context, s *watched) {
	next := time.NewTicker(w.cfg.Every)
	defer next.Stop()
	for ctx.Err() == nil {
		w.ask(ctx, s)
		select {
		case <-next.C:
		case <-ctx.Done():
		}
	}
}

// ask asks a source once, and logs the first of several failures.
func (w *Watch) ask(ctx context.Context, s *watched) {
	bounded, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	values, err := s.Gauges(bounded)
	first := s.end(values, err, time.Now())
	// The end of ctx is no failure of the source.
	if !first || ctx.Err() != nil {
		return
	}
	l := w.cfg.Log
	if l == nil {
		l = slog.Default()
	}
	l.WarnContext(ctx, "gauge: a source of gauges has failed; if it keeps failing, its values will be missing from the metrics. Try: check that the database is reachable", slog.Any("error", err))
}

// end stores an answer. It returns true for the first failure after a success.
func (s *watched) end(values []Value, err error, now time.Time) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The old values stay. last drops them when they are too old.
	if err != nil {
		first, s.failing = !s.failing, true
		return first
	}
	s.values, s.at, s.failing = values, now, false
	return false
}

// last returns the last values, if they are not too old, and their age. For a source that has never answered, the age is the time since the watch was
// made.
func (s *watched) last(now time.Time, most time.Duration) (values []Value, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() {
		return nil, now.Sub(s.since)
	}
	if age = now.Sub(s.at); age <= most {
		values = s.values
	}
	return values, age
}

// Values returns the last values, sorted by name and label. Values calls no source. If a source has not
// succeeded for three times Config.Every, its values are missing. The gauge once_watch_age_seconds is always
// in the result, and grows even if Run was never called. If several sources return a value with the same
// name and label, Values returns the sum of these values if they are counts, and the highest value if they
// are ages.
func (w *Watch) Values() []Value {
	type series struct{ name, label string }
	now, found := time.Now(), map[series]float64{}
	add := func(v Value) {
		in := byName[v.Name]
		if in == nil { // an unknown name: a source of a newer version may return it
			return
		}
		at := series{v.Name, ""}
		if in.Label != "" {
			at.label, _ = w.labels[in.Label].Value(v.Label)
		}
		if old, ok := found[at]; ok {
			v.Number = in.fold.of(old, v.Number)
		}
		found[at] = v.Number
	}
	for _, s := range w.all() {
		values, age := s.last(now, rounds*w.cfg.Every)
		for _, v := range values {
			add(v)
		}
		add(Value{Name: gaugename.Age, Number: age.Seconds()})
	}
	keys := slices.SortedFunc(maps.Keys(found), func(a, b series) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.label, b.label)) })
	values := make([]Value, 0, len(keys))
	for _, k := range keys {
		values = append(values, Value{Name: k.name, Label: k.label, Number: found[k]})
	}
	return values
}

// of combines two values of the same name and label.
func (f fold) of(a, b float64) float64 {
	switch f {
	case highest:
		return max(a, b)
	case lowest:
		return min(a, b)
	}
	return a + b
}
