package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// storm is the kill script: clients order while both services are killed again and again. Then it counts the rows of the two databases. The services
// are already running, and their supervisor restarts them.
type storm struct {
	*config

	orders, kills int

	buyers string // prefix of the names of its customers
	killed []int  // kills of each service
	dead   map[string]bool
}

func (s *storm) flags(fs *flag.FlagSet) {
	fs.IntVar(&s.orders, "orders", 200, "how `MANY` orders")
	fs.IntVar(&s.kills, "kills", 5, "how `OFTEN` each service is killed")
}

const (
	clients   = 8
	customers = 10
	patience  = time.Minute // without any progress
	tick      = 50 * time.Millisecond
)

func (s *storm) run(ctx context.Context, w io.Writer) error {
	if s.orders < 2*len(services)*s.kills {
		return fmt.Errorf("%[1]d kills of each service need more orders. Try: -orders %[2]d", s.kills, 2*len(services)*s.kills)
	}
	s.buyers, s.killed, s.dead = "storm-"+strings.ToLower(rand.Text()[:6])+"-", make([]int, len(services)), map[string]bool{}
	if err := s.rage(ctx); err != nil {
		return err
	}
	c, err := s.await(ctx)
	if err != nil {
		return err
	}
	return s.report(w, c)
}

// rage places the orders, and kills a service each time when some more of them are answered.
func (s *storm) rage(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	numbers, answers := make(chan int), make(chan error, s.orders)
	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Attempts: 10, Total: 10 * time.Second}}}
	for range clients {
		go func() {
			for n := range numbers {
				answers <- s.order(ctx, client, n)
			}
		}()
	}
	go func() {
		defer close(numbers)
		for n := range s.orders {
			numbers <- n
		}
	}()
	all := s.kills * len(services)
	for n, kills := 1, 0; n <= s.orders; n++ {
		if err := <-answers; err != nil {
			return err
		}
		if kills < all && n > s.orders*kills/all {
			if err := s.kill(ctx, kills%len(services)); err != nil {
				return err
			}
			kills++
		}
	}
	return nil
}

// order places one order until it is answered: each try has the same key, so that it stays one order.
func (s *storm) order(ctx context.Context, client *http.Client, n int) error {
	ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: once.NewKey()})
	body := fmt.Sprintf(`{"customer":"%s%d","item":"tea"}`, s.buyers, n%customers)
	for began := time.Now(); ; {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.serving(0)+"/orders", strings.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusCreated {
				return nil
			}
			err = fmt.Errorf("orders answers with %s", resp.Status)
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%w. Try: go run ./examples/shop, in another terminal", err)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// kill sends SIGKILL to a service. If the service has not restarted since the last kill, kill waits for it.
func (s *storm) kill(ctx context.Context, service int) error {
	for began := time.Now(); time.Since(began) < patience; {
		pid, err := s.pid(ctx, service)
		if err == nil && !s.dead[pid] {
			number, err := strconv.Atoi(pid)
			if err != nil {
				return err
			}
			process, err := os.FindProcess(number)
			if err != nil {
				return err
			}
			s.dead[pid] = true
			s.killed[service]++
			return process.Kill()
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s does not come back", services[service].name)
}

// pid asks a service for its process ID, so that no other process is killed.
func (s *storm) pid(ctx context.Context, service int) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.metrics(service)+"/pid", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// count is the numbers of this storm in the databases.
type count struct {
	placed, told    int // orders, and orders that are marked as shipped
	shipped, lost   int // orders with a shipment, and orders without one
	twice, phantoms int // second shipments of an order, and shipments without an order
}

// await counts until no work is left.
func (s *storm) await(ctx context.Context) (c count, err error) {
	databases := map[string]*sql.DB{}
	for _, service := range services {
		db, _, err := open(ctx, *s.database[service.name], nil)
		if err != nil {
			return c, err
		}
		defer db.Close()
		databases[service.name] = db
	}
	js, err := connect(ctx, s.broker())
	if err != nil {
		return c, err
	}
	defer js.Conn().Close()
	for since := time.Now(); ; {
		last := c
		if c, err = s.count(ctx, databases); err != nil {
			return c, err
		}
		if c != last {
			since = time.Now()
		}
		if c.told == c.placed && acknowledged(ctx, js) || time.Since(since) > patience {
			return s.count(ctx, databases)
		}
		if err := pause(ctx); err != nil {
			return c, err
		}
	}
}

func (s *storm) count(ctx context.Context, databases map[string]*sql.DB) (c count, err error) {
	buyers := s.buyers + "%"
	placed, err := read(ctx, databases["orders"], "select id, state from purchase where customer like $1", buyers)
	if err != nil {
		return c, err
	}
	shipments, err := read(ctx, databases["shipping"], "select order_id from shipment where customer like $1", buyers)
	if err != nil {
		return c, err
	}
	of := map[string]int{} // shipments, by order
	for _, row := range shipments {
		of[row[0]]++
	}
	c.placed, c.phantoms = len(placed), len(shipments)
	for _, row := range placed {
		id, state := row[0], row[1]
		c.phantoms -= of[id]
		c.twice += max(0, of[id]-1)
		if of[id] > 0 {
			c.shipped++
		} else {
			c.lost++
		}
		if state == "shipped" {
			c.told++
		}
	}
	return c, nil
}

// acknowledged reports whether each service has applied all its messages of the broker. Messages that a killed process has taken come again.
func acknowledged(ctx context.Context, js jetstream.JetStream) bool {
	for _, s := range services {
		c, err := js.Consumer(ctx, stream, s.name)
		if err != nil || c.CachedInfo().NumPending > 0 || c.CachedInfo().NumAckPending > 0 {
			return false
		}
	}
	return true
}

func (s *storm) report(w io.Writer, c count) error {
	for i, service := range services {
		fmt.Fprintf(w, "%6d  times %s was killed (SIGKILL)\n", s.killed[i], service.name)
	}
	for _, line := range []struct {
		n    int
		what string
	}{
		{c.placed, fmt.Sprintf("of %d orders were placed", s.orders)}, {c.shipped, "orders are shipped"}, {c.lost, "orders are lost"}, {c.twice, "shipments too many"},
		{c.phantoms, "shipments of orders that do not exist"}, {c.told, "orders are marked as shipped in the service orders"},
	} {
		fmt.Fprintf(w, "%6d  %s\n", line.n, line.what)
	}
	if c != (count{placed: s.orders, shipped: s.orders, told: s.orders}) {
		return errors.New("NOT OK")
	}
	_, err := fmt.Fprintln(w, "\nOK: each order was placed once, and shipped once.")
	return err
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(tick):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
