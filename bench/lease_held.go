package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/upkeep"
)

// heldLeases has the costs of held operations, and the time until they are taken over.
type heldLeases struct {
	Held   int           `json:"held"`
	Beat   time.Duration `json:"beat_client_cpu_ns"` // to renew all held operations once
	Server time.Duration `json:"beat_server_cpu_ns"`
	Share  float64       `json:"client_share_of_a_core"` // at the default TTL
	HOT    float64       `json:"hot_share"`              // of the updates

	Waiting int           `json:"waiting"`
	Due     time.Duration `json:"due_ns"` // to find that no waiting operation is due
	Backlog time.Duration `json:"backlog_ns"`

	TTL      time.Duration `json:"ttl_ns"`
	Taken    int           `json:"taken_over"`
	Takeover time.Duration `json:"takeover_p99_ns"`
	Longest  time.Duration `json:"takeover_longest_ns"`
}

const (
	heldBar    = 0.005 // of a core
	takenBar   = time.Second
	heldTTL    = 3 * time.Second // renewed once a second
	killedTTL  = 2 * time.Second
	manyHeld   = 1000
	someHeld   = 200
	manyWait   = 100_000
	holdMode   = "leases" // of this program, as the process to kill
	leaseScope = "bench leases"
)

func (b *bench) leaseHeld(ctx context.Context) (*heldLeases, error) {
	h := &heldLeases{Held: manyHeld, Waiting: manyWait, TTL: killedTTL}
	warm, window, kills := 30*time.Second, 20*time.Second, 10 // renewals spread the rows of full pages first
	if b.quick {
		warm, window, kills = heldTTL, 5*time.Second, 2
	}
	for _, measure := range []func(ctx context.Context, database string, pool *pgxpool.Pool) error{
		func(ctx context.Context, _ string, pool *pgxpool.Pool) error {
			return h.heartbeats(ctx, pool, b.server.cpu(), warm, window)
		},
		func(ctx context.Context, _ string, pool *pgxpool.Pool) error { return h.waits(ctx, pool) },
		func(ctx context.Context, database string, pool *pgxpool.Pool) error {
			return h.takeovers(ctx, b.server.pg.URL(database), pool, kills)
		},
	} {
		database, err := b.server.newDatabase(ctx)
		if err != nil {
			return nil, err
		}
		pool, err := b.server.pool(ctx, database, 4, nil)
		if err != nil {
			return nil, err
		}
		err = measure(ctx, database, pool)
		pool.Close()
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// hold begins n operations whose handlers wait for the end of ctx, and returns when all are held. done is closed when they have ended.
func hold(ctx context.Context, pool *pgxpool.Pool, ttl time.Duration, n int) (done <-chan struct{}) {
	e := once.New(lease.New(pgxstore.New(pool, pgxstore.Config{}), lease.Config{TTL: ttl, Eager: true}), once.Config{Observer: once.Discard, Encrypter: benchEncrypter()})
	var begun, running sync.WaitGroup
	begun.Add(n)
	for i := range n {
		op := once.Operation{Scope: leaseScope, Key: strconv.Itoa(i), Request: []byte("{}")}
		running.Go(func() {
			_, _ = once.Do(context.WithoutCancel(ctx), e, op, func(context.Context, *lease.Run) (int, error) {
				begun.Done()
				<-ctx.Done()
				return i, nil
			})
		})
	}
	begun.Wait()
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	return ended
}

func benchEncrypter() once.Encrypter {
	e, err := once.NewEncrypter(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return e
}

// heartbeats measures renewals and nothing else: the handlers wait.
func (h *heldLeases) heartbeats(ctx context.Context, pool *pgxpool.Pool, cpu cpu, warm, window time.Duration) error {
	holding, release := context.WithCancel(ctx)
	defer release()
	done := hold(holding, pool, heldTTL, manyHeld)
	if err := pause(ctx, warm); err != nil {
		return err
	}
	renewed, err := updatesOf(ctx, pool)
	if err != nil {
		return err
	}
	client, server := cpu.used()
	if err := pause(ctx, window); err != nil {
		return err
	}
	clientThen, serverThen := cpu.used()
	then, err := updatesOf(ctx, pool)
	if err != nil {
		return err
	}
	beats := float64(window) / float64(heldTTL/3)
	h.Beat, h.Server = time.Duration(float64(clientThen-client)/beats), time.Duration(float64(serverThen-server)/beats)
	h.Share = float64(h.Beat) / float64(lease.DefaultTTL/3)
	h.HOT = then.since(renewed)
	release()
	<-done
	return nil
}

// updates counts updates of operations, and the HOT ones, which touch no index.
type updates struct{ all, hot float64 }

func updatesOf(ctx context.Context, pool *pgxpool.Pool) (u updates, err error) {
	err = pool.QueryRow(ctx, "select coalesce(n_tup_upd, 0), coalesce(n_tup_hot_upd, 0) from pg_stat_user_tables where relname = 'once_operation'").Scan(&u.all, &u.hot)
	return u, err
}

// since is the share of HOT updates since before.
func (u updates) since(before updates) float64 {
	if u.all == before.all {
		return 0
	}
	return (u.hot - before.hot) / (u.all - before.all)
}

// waits measures how long it takes to find that no operation is due.
func (h *heldLeases) waits(ctx context.Context, pool *pgxpool.Pool) error {
	const insert = `insert into once_operation (scope, key, state, claim, lease_until, data)
select $1, md5(g::text), 1, decode(md5(g::text), 'hex'), now() + interval '1 hour', repeat('x', 200)::bytea from generate_series(1, $2) g`
	if _, err := pool.Exec(ctx, insert, leaseScope, manyWait); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "vacuum analyze once_operation"); err != nil {
		return err
	}
	s := pgxstore.New(pool, pgxstore.Config{})
	var due, backlog []time.Duration
	for range 20 {
		began := time.Now()
		list, _, err := s.Unfinished(ctx, upkeep.Listing{Limit: 500, Due: true})
		due = append(due, time.Since(began))
		if err == nil && len(list) > 0 {
			err = errors.New("operations are due, and none should be")
		}
		if err != nil {
			return err
		}
		began = time.Now()
		counted, err := s.Backlog(ctx)
		backlog = append(backlog, time.Since(began))
		if err == nil && counted.Running.Number != manyWait {
			err = fmt.Errorf("the backlog is %+v", counted)
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(due)
	slices.Sort(backlog)
	h.Due, h.Backlog = due[len(due)/2], backlog[len(backlog)/2]
	return nil
}

// takeovers kills processes that hold operations, and measures when a Completer has each of them.
func (h *heldLeases) takeovers(ctx context.Context, url string, pool *pgxpool.Pool, kills int) error {
	var mu sync.Mutex
	var killed time.Time
	var took []time.Duration
	leased := lease.New(pgxstore.New(pool, pgxstore.Config{}), lease.Config{TTL: killedTTL})
	e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: benchEncrypter()})
	c := lease.Completer{Store: leased, Encrypter: benchEncrypter(), Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
		_, err := once.Do(ctx, e, op, func(context.Context, *lease.Run) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(killed))
			return 0, nil
		})
		return err
	}}}
	running, stop := context.WithCancel(ctx)
	completed := make(chan error, 1)
	go func() { completed <- c.Run(running) }()
	for kill := range kills {
		err := killHolder(ctx, url, func() {
			mu.Lock()
			defer mu.Unlock()
			killed = time.Now()
		})
		for err == nil {
			mu.Lock()
			n := len(took)
			mu.Unlock()
			if n == (kill+1)*someHeld {
				break
			}
			err = pause(ctx, 10*time.Millisecond)
		}
		if err == nil {
			_, err = pool.Exec(ctx, "truncate once_operation")
		}
		if err != nil {
			stop()
			return errors.Join(err, <-completed)
		}
	}
	stop()
	slices.Sort(took)
	h.Taken, h.Takeover, h.Longest = len(took), took[len(took)*99/100], took[len(took)-1]
	return <-completed
}

// killHolder starts a process that holds operations, and kills it in the middle of its work.
func killHolder(ctx context.Context, url string, killed func()) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), serveMode+"="+holdMode, serveURL+"="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, held := bufio.NewReader(out).ReadString('\n')
	if held == nil {
		held = pause(ctx, killedTTL) // renewed a few times
	}
	killed()
	err = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return errors.Join(held, err)
}

// holdLeases is the process to kill.
func holdLeases(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv(serveURL))
	if err != nil {
		return err
	}
	defer pool.Close()
	done := hold(ctx, pool, killedTTL, someHeld)
	fmt.Println("held")
	<-done
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *heldLeases) write(p printer) {
	p("\n### Operations that are held\n")
	p("| | | bar | |")
	p("|---|---|---|---|")
	p("| %d operations are held at the default TTL: CPU of the client | %.3f %% of a core | <= %.1f %% | %s |", h.Held, 100*h.Share, 100*heldBar, word(h.Share <= heldBar))
	p("| one renewal of all of them: CPU of the client, of the server | %.1f ms, %.1f ms | | |", millisOf(h.Beat), millisOf(h.Server))
	p("| renewals that write no index (HOT) | %.1f %% | | |", 100*h.HOT)
	p("| the owner is killed: until a Completer has each of %d operations, p99 | TTL (%s) %+.2f s | <= TTL + 1 s | %s |", h.Taken, h.TTL, (h.Takeover - h.TTL).Seconds(), word(h.Takeover <= h.TTL+takenBar))
	p("| the longest of them | TTL %+.2f s | | |", (h.Longest - h.TTL).Seconds())
	p("| of %s operations that wait none is due: a look | %.1f ms | | |", thousands(int64(h.Waiting)), millisOf(h.Due))
	p("| the same operations are counted for a metric | %.1f ms | | |", millisOf(h.Backlog))
}

func millisOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
