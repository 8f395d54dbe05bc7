package outbox

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// relayPlan is what a relay process does.
type relayPlan struct {
	Database harness.Database
	To, URL  string        // the destination
	KillAt   int64         // it kills itself at this named point; 0: never
	TTL      time.Duration // 0: one second
	Timeout  time.Duration // of a delivery; 0: short, so that some end in doubt
}

// CarryOut implements harness.Plan: it runs a relay until it is drained. What opens the store does not end with that:
// a relay that is drained before it has begun ends well.
func (p relayPlan) CarryOut(opening context.Context) error {
	ctx := harness.UntilDrained(opening)
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
	publisher := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		point()
		defer point()
		return to.Publish(ctx, messages)
	})
	cfg := outbox.RelayConfig{Batch: 50, Concurrency: 2, TTL: cmp.Or(p.TTL, time.Second), Timeout: cmp.Or(p.Timeout, 150*time.Millisecond), Policy: soon(1 << 30)}
	return p.Database.Use(opening,
		func(s harness.Store[pgx.Tx]) error {
			return outbox.New(watch[pgx.Tx](s, point, point), outbox.Config{}).Relay(publisher, cfg).Run(ctx)
		},
		func(s harness.Store[*sql.Tx]) error {
			return outbox.New(watch[*sql.Tx](s, point, point), outbox.Config{}).Relay(publisher, cfg).Run(ctx)
		})
}

// publisher opens the destination.
func (p relayPlan) publisher() (outbox.Publisher, func(), error) {
	switch p.To {
	case toNATS:
		return natsPublisher(p.URL)
	case toKafka:
		return kafkaPublisher(p.URL)
	case toRedis:
		return redisPublisher(p.URL)
	case toWatermill:
		return watermillPublisher(p.URL), func() {}, nil
	}
	return outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error { return post(ctx, p.URL, messages) }), func() {}, nil
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
func post(ctx context.Context, url string, messages []message.Message) []error {
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
