package outbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// childEnv makes this binary a relay: it holds a relayPlan.
const childEnv = "ONCE_TORTURE_RELAY"

// relayPlan is what a relay process does.
type relayPlan struct {
	Driver, DSN string        // of package sqlstore; Driver "": pgxstore
	To, URL     string        // the destination
	KillAt      int64         // it kills itself at this named point; 0: never
	TTL         time.Duration // 0: one second
	Timeout     time.Duration // of a delivery; 0: short, so that some end in doubt
}

// beRelay is a relay process. It ends with its standard input.
func beRelay(text string) int {
	var p relayPlan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := p.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// run opens the store and runs a relay until ctx ends. What opens the store does not end with ctx:
// a relay that is drained before it has begun ends well.
func (p relayPlan) run(ctx context.Context) error {
	opening := context.WithoutCancel(ctx)
	var points atomic.Int64
	point := func() {
		if points.Add(1) == p.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	to, closeTo, err := p.publisher()
	if err != nil {
		return err
	}
	defer closeTo()
	publisher := outbox.PublisherFunc(func(ctx context.Context, messages []outbox.Message) []error {
		point()
		defer point()
		return to.Publish(ctx, messages)
	})
	cfg := outbox.RelayConfig{Batch: 50, Concurrency: 2, TTL: cmp.Or(p.TTL, time.Second), Timeout: cmp.Or(p.Timeout, 150*time.Millisecond), Policy: soon(1 << 30)}
	if p.Driver == "" {
		pool, err := pgxpool.New(opening, p.DSN)
		if err != nil {
			return err
		}
		defer pool.Close()
		s := &watchedStore[pgx.Tx]{SQL: pgxstore.New(pool, pgxstore.Config{}), before: point, after: point}
		return outbox.New(s, outbox.Config{}).Relay(publisher, cfg).Run(ctx)
	}
	db, err := sqlstore.Open(p.Driver, p.DSN)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	s, err := sqlstore.New(opening, db, sqlstore.Config{})
	if err != nil {
		return err
	}
	return outbox.New(watch(s, point, point), outbox.Config{}).Relay(publisher, cfg).Run(ctx)
}

// publisher opens the destination.
func (p relayPlan) publisher() (outbox.Publisher, func(), error) {
	switch p.To {
	case toNATS:
		return natsPublisher(p.URL)
	case toKafka:
		return kafkaPublisher(p.URL)
	case toWatermill:
		return watermillPublisher(p.URL), func() {}, nil
	}
	return outbox.PublisherFunc(func(ctx context.Context, messages []outbox.Message) []error { return post(ctx, p.URL, messages) }), func() {}, nil
}

func watch[TX any](s sqlplane.SQL[TX], before, after func()) *watchedStore[TX] {
	return &watchedStore[TX]{SQL: s, before: before, after: after}
}

// watchedStore tells of each statement that runs by itself: those of relays.
type watchedStore[TX any] struct {
	sqlplane.SQL[TX]

	before, after func()
}

func (s *watchedStore[TX]) Pool() sqlplane.Runner { return watchedRunner[TX]{s.SQL.Pool(), s} }

type watchedRunner[TX any] struct {
	sqlplane.Runner

	s *watchedStore[TX]
}

func (r watchedRunner[TX]) Exec(ctx context.Context, st store.Statement) (int64, error) {
	r.s.before()
	defer r.s.after()
	return r.Runner.Exec(ctx, st)
}

func (r watchedRunner[TX]) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	r.s.before()
	defer r.s.after()
	return r.Runner.Query(ctx, st, each)
}

// post delivers messages to a consumer over HTTP, which answers with an error text for each.
func post(ctx context.Context, url string, messages []outbox.Message) []error {
	failed := func(err error) []error {
		errs := make([]error, len(messages))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	body, err := json.Marshal(messages)
	if err != nil {
		return failed(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return failed(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return failed(outbox.Unavailable(err))
	}
	defer func() { _ = answer.Body.Close() }()
	var texts []string
	if err := json.NewDecoder(answer.Body).Decode(&texts); err != nil {
		return failed(err)
	}
	errs := make([]error, len(texts))
	for i, text := range texts {
		if text != "" {
			errs[i] = errors.New(text)
		}
	}
	return errs
}
