package hookrelay

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/webhook"
)

// plan is a relay in a process of its own.
type plan struct {
	Database harness.Database
	URL      string
	TTL      time.Duration
	At       int64 // it is killed at this point, see walk, or stopped; 0: never
	Stop     bool
	Sockets  bool // points are those of its connections to endpoints, and not of its statements
	NoFiles  bool // from the moment at which it holds its parts until SIGUSR1; then it prints a line for each request that it could not make
}

// CarryOut implements harness.Plan: it runs a relay until it is drained.
func (p plan) CarryOut(opening context.Context) error {
	ctx := harness.UntilDrained(opening)
	cfg := webhook.RelayConfig{TTL: p.TTL, Timeout: 5 * time.Second, Schedule: soon(1000)}
	if p.NoFiles {
		cfg.Observer = newStarved()
	}
	w := &walk{plan: p}
	if p.At > 0 {
		cfg.Tracer = w
	}
	return p.Database.Use(opening,
		func(s harness.Store[pgx.Tx]) error {
			return w.run(ctx, webhook.New[pgx.Tx](watched[pgx.Tx]{s, w.watch()}, config(p.URL)).Relay(cfg))
		},
		func(s harness.Store[*sql.Tx]) error {
			return w.run(ctx, webhook.New[*sql.Tx](watched[*sql.Tx]{s, w.watch()}, config(p.URL)).Relay(cfg))
		})
}

// starved takes the file descriptors of this process away as soon as its relay holds parts, and tells of requests that it could not make.
type starved struct{ once sync.Once }

func newStarved() *starved {
	mend := make(chan os.Signal, 1)
	signal.Notify(mend, syscall.SIGUSR1)
	go func() {
		<-mend
		limitFiles(1024)
	}()
	return &starved{}
}

// Observe implements webhook.RelayObserver.
func (s *starved) Observe(_ context.Context, e webhook.RelayEvent) {
	switch e.Type { //nolint:exhaustive // of others nothing is told
	case webhook.EventTaken:
		if e.Parts > 0 {
			s.once.Do(func() {
				limitFiles(3)
				fmt.Println("starved")
			})
		}
	case webhook.EventOurs:
		fmt.Println("ours", e.EventID, e.Err)
	}
}

// limitFiles lets this process open no file with a number above most.
func limitFiles(most uint64) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	if l.Cur = most; err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	}
	if err != nil {
		panic(err)
	}
}
