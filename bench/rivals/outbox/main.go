// Command outbox compares what it costs to publish an event with a business transaction: once, the
// same by hand, and libraries that store jobs or messages in PostgreSQL.
//
//	cd bench/rivals/outbox && GOWORK=off go run . -o RESULTS.md
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/bench/rivals/frame"
)

func main() { frame.Main("few and short rounds", report) }

const clients = 16

// report is the whole file.
func report(ctx context.Context, quick bool) (_ string, err error) {
	r := race{rounds: 20, slice: 250 * time.Millisecond}
	if quick {
		r = race{rounds: 5, slice: 100 * time.Millisecond}
	}
	before := frame.Load()
	pg, err := frame.Postgres(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = pg.Close() }() // the janitor of testenv removes what stays
	if err := pg.CreateDatabase("outbox"); err != nil {
		return "", err
	}
	cfg, err := pgxpool.ParseConfig(pg.URL("outbox"))
	if err != nil {
		return "", err
	}
	cfg.MinConns, cfg.MaxConns = clients, clients
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	field, err := producers(ctx, pool)
	if err != nil {
		return "", err
	}
	if err := r.run(ctx, field); err != nil {
		return "", err
	}
	relays := drainers(pool)
	for range drainRounds {
		for _, i := range rand.Perm(len(relays)) {
			perSecond, err := relays[i].drain(ctx)
			if err != nil {
				return "", err
			}
			relays[i].laps = append(relays[i].laps, perSecond)
		}
	}
	return write(r, field, relays, before), nil
}

const drainRounds = 5

func write(r race, field []*producer, relays []*drainer, before string) string {
	var w strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	p("<!-- Generated: cd bench/rivals/outbox && GOWORK=off go run . -o RESULTS.md -->")
	p("# Events in the business transaction")
	p("")
	p("Repeat with `cd bench/rivals/outbox && GOWORK=off go run . -o RESULTS.md`. %s, Go %s, %d cores, a private PostgreSQL with",
		time.Now().UTC().Format(time.DateOnly), strings.TrimPrefix(runtime.Version(), "go"), runtime.NumCPU())
	p("fsync on, %d clients on the same machine. Every transaction inserts two business rows and publishes one event of about", clients)
	p("300 bytes. **once** also keeps an idempotency key and the answer, and gives each event a number of its key without gaps;")
	p("so does **by hand**, without idempotency. The libraries store a job or a message, without numbers of a key, with their")
	p("default settings. Contestants take turns in slices of %s, %d rounds; ratios are those of one round: median [least .. most].", r.slice, r.rounds)
	p("Load average of the machine: %s before and %s after the run.", before, frame.Load())
	p("")
	p("| | transactions a second | against by hand | against River InsertTx | against watermill-sql |")
	p("|---|---|---|---|---|")
	for _, f := range field {
		p("| %s | %.0f | %s | %s | %s |", f.name, f.perSecond(), f.ratio(field[0]), f.ratio(find(field, nameRiver)), f.ratio(find(field, nameWatermill)))
	}
	p("\n## Delivery\n")
	p("A backlog of the same events goes to a handler that does nothing: of %d events for once, of %d for the libraries, which", relays[0].messages, relays[1].messages)
	p("have their default settings, and River as many workers as its examples. River fetches jobs at most every 100 ms by default,")
	p("and so does at most 1,000 a second here. The clock runs from the first event that is handled to the last one. %d rounds.\n", drainRounds)
	p("| | events a second |")
	p("|---|---|")
	for _, d := range relays {
		p("| %s | %.0f [%.0f .. %.0f] |", d.name, median(slices.Clone(d.laps)), slices.Min(d.laps), slices.Max(d.laps))
	}
	return w.String()
}
