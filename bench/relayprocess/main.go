// Command relayprocess is the measured process of the outbox benchmark. It uses only names that every release has, so that the benchmark can build it
// in an earlier commit as well.
//
//	relayprocess migrate DSN
//	relayprocess fill DSN MESSAGES TOPICS    many messages with keys, in few transactions
//	relayprocess add DSN MESSAGES            a transaction for each message, which has a key; 8 at once
//	relayprocess drain DSN MESSAGES          a relay with a publisher that does nothing
//	relayprocess delay DSN SECONDS           a relay, while 1,000 messages a second are added
//
// It prints "begin" and "end JSON" around the measured work, and ends with its standard input.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "relayprocess:", err)
		os.Exit(1)
	}
}

const (
	conns   = 24
	keys    = 1000
	writers = 8
	rate    = 1000
)

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("no command or no DSN. Try: see the source")
	}
	cfg, err := pgxpool.ParseConfig(args[1])
	if err != nil {
		return err
	}
	cfg.MinConns, cfg.MaxConns = conns, conns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	p := process{pool, outbox.New(pgxstore.New(pool, pgxstore.Config{}), outbox.Config{})}
	number := func(i int) int {
		if len(args) <= i {
			return 0
		}
		n, _ := strconv.Atoi(args[i])
		return n
	}
	switch args[0] {
	case "migrate":
		return pgxstore.Migrate(ctx, pool, outbox.Migrations)
	case "fill":
		return p.fill(ctx, number(2), number(3))
	case "add":
		return p.add(ctx, number(2))
	case "drain":
		return p.drain(ctx, number(2))
	case "delay":
		return p.delay(ctx, number(2))
	}
	return fmt.Errorf("no command %q", args[0])
}

type process struct {
	pool *pgxpool.Pool
	box  *outbox.Box[pgx.Tx]
}

// measured has the results of a process.
type measured struct {
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"`
	P50  time.Duration `json:"p50"`
	P99  time.Duration `json:"p99"`
}

// measure prints begin, waits until the benchmark has read the clocks of the server, and returns a function that prints the end.
func measure() (end func(m measured)) {
	fmt.Println("begin")
	began, cpu := time.Now(), used()
	return func(m measured) {
		m.Wall, m.CPU = time.Since(began), used()-cpu
		text, err := json.Marshal(m)
		fmt.Println("end", string(text))
		if err == nil {
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
}

func used() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (p process) message(topic, key, number int) message.Message {
	payload := make([]byte, 200)
	binary.BigEndian.PutUint64(payload, uint64(number))
	return message.Message{Topic: "refunds" + strconv.Itoa(topic), Key: "k" + strconv.Itoa(key), Type: "refund.succeeded", Payload: payload}
}

// parallel runs fn for 0 to n-1, in writers goroutines.
func parallel(n int, fn func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += writers {
				errs[w] = fn(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (p process) commit(ctx context.Context, list ...message.Message) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { return p.box.Add(ctx, tx, list...) })
}

func (p process) fill(ctx context.Context, messages, topics int) error {
	const each = 500
	for first := 0; first < messages; first += each {
		var list []message.Message
		for i := first; i < min(first+each, messages); i++ {
			list = append(list, p.message(i%topics, i/topics%keys, i))
		}
		if err := p.commit(ctx, list...); err != nil {
			return err
		}
	}
	return nil
}

func (p process) add(ctx context.Context, messages int) error {
	_, err := p.pool.Exec(ctx, "select 1")
	if err != nil {
		return err
	}
	end := measure()
	err = parallel(messages, func(i int) error { return p.commit(ctx, p.message(0, i*7919%keys, i)) })
	if err == nil {
		end(measured{})
	}
	return err
}

// relay runs a relay until stop is called.
func (p process) relay(ctx context.Context, publisher outbox.Publisher, seen func()) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	held := make(chan struct{})
	const all = 64 // parts
	began := sync.OnceFunc(func() { close(held) })
	r := p.box.Relay(publisher, outbox.RelayConfig{Observer: observer(func(e outbox.Event) {
		switch {
		case e.Type == outbox.EventDelivered && seen != nil:
			seen()
		case e.Type == outbox.EventTaken && e.Parts == all:
			began()
		}
	})})
	go func() { ended <- r.Run(ctx) }()
	<-held
	return func() error {
		cancel()
		return <-ended
	}
}

type observer func(outbox.Event)

func (f observer) Observe(_ context.Context, e outbox.Event) { f(e) }

// drain measures from the first published message to the last finished one.
func (p process) drain(ctx context.Context, messages int) error {
	if _, err := p.pool.Exec(ctx, "select count(payload) from once_outbox"); err != nil { // later reads do not come from the disk
		return err
	}
	var end func(measured)
	var left atomic.Int64
	left.Store(int64(messages))
	emptied := make(chan struct{})
	begin := sync.OnceFunc(func() { end = measure() })
	stop := p.relay(ctx, outbox.PublisherFunc(func(context.Context, []message.Message) []error {
		begin()
		return nil
	}), func() {
		if left.Add(-1) == 0 {
			close(emptied)
		}
	})
	<-emptied
	end(measured{})
	return stop()
}

// delay measures from the end of COMMIT, as its writer sees it, to the call of Publish. The first second does not count.
func (p process) delay(ctx context.Context, seconds int) error {
	n := (1 + seconds) * rate
	committed, arrived := make([]atomic.Int64, n), make([]atomic.Int64, n)
	start := time.Now()
	var missing atomic.Int64
	missing.Store(int64(n))
	everything := make(chan struct{})
	stop := p.relay(ctx, outbox.PublisherFunc(func(_ context.Context, messages []message.Message) []error {
		now := int64(time.Since(start))
		for i := range messages {
			if at := &arrived[binary.BigEndian.Uint64(messages[i].Payload)]; at.CompareAndSwap(0, now) && missing.Add(-1) == 0 {
				close(everything)
			}
		}
		return nil
	}), nil)
	end := measure()
	first := time.Now()
	err := parallel(n, func(i int) error {
		<-time.After(time.Until(first.Add(time.Duration(i) * time.Second / rate)))
		err := p.commit(ctx, p.message(0, i*7919%keys, i))
		committed[i].Store(int64(time.Since(start)))
		return err
	})
	if err != nil {
		return err
	}
	<-everything
	var list []time.Duration
	for i := rate; i < n; i++ {
		list = append(list, max(0, time.Duration(arrived[i].Load()-committed[i].Load())))
	}
	slices.Sort(list)
	end(measured{P50: list[len(list)/2], P99: list[len(list)*99/100]})
	return stop()
}
