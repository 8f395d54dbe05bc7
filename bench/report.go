package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// report has the results of a run.
type report struct {
	When         time.Time     `json:"when"`
	Machine      machine       `json:"machine"`
	Rounds       int           `json:"rounds"`
	Slice        time.Duration `json:"slice_ns"`
	Quick        bool          `json:"quick,omitempty"`
	Load         [2]string     `json:"load"` // of the machine, before and after
	Costs        []cost        `json:"costs,omitempty"`
	Settings     []throughput  `json:"settings,omitempty"`
	Serializable []throughput  `json:"serializable,omitempty"`
	Optimistic   *throughput   `json:"optimistic,omitempty"`
	Batch        []throughput  `json:"batch,omitempty"`
	Growth       *growth       `json:"growth,omitempty"`
	Middleware   *middleware   `json:"middleware,omitempty"`
	SQLite       *sqlite       `json:"sqlite,omitempty"`
	Groups       []grouped     `json:"groups,omitempty"`
	MySQL        *onMySQL      `json:"mysql,omitempty"`
	Sweeping     sweeping      `json:"sweeping,omitempty"`
	HTTP         *overHTTP     `json:"over_http,omitempty"`
	Outbox       []throughput  `json:"outbox,omitempty"`
	OutboxGroups []grouped     `json:"outbox_groups,omitempty"`
	Relay        *relayed      `json:"relay,omitempty"`
	Earlier      *relayEarlier `json:"earlier,omitempty"`
	Isolation    *isolation    `json:"isolation,omitempty"`
	Inbox        *inboxed      `json:"inbox,omitempty"`
	Lease        *throughput   `json:"lease,omitempty"`
	Sagas        *sagas        `json:"sagas,omitempty"`
	Webhooks     *webhooks     `json:"webhooks,omitempty"`
	Gateway      *gateways     `json:"gateway,omitempty"`
	Home         *throughput   `json:"home,omitempty"`
	Shared       *throughput   `json:"shared,omitempty"`
	Redis        *throughput   `json:"redis,omitempty"`
	Telemetry    *telemetry    `json:"telemetry,omitempty"`
	LeasesHeld   *heldLeases   `json:"leases_held,omitempty"`
	Herd         *herd         `json:"herd,omitempty"`
	Console      *consoled     `json:"console,omitempty"`
}

type machine struct {
	CPUs       int           `json:"cpus"`
	OS         string        `json:"os"`
	Arch       string        `json:"arch"`
	Go         string        `json:"go"`
	PostgreSQL string        `json:"postgresql"`
	Fsync      time.Duration `json:"fsync_ns"`
}

func (b *bench) describe(ctx context.Context) (*report, error) {
	pool, err := b.server.pool(ctx, "postgres", 1, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	m := machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: strings.TrimPrefix(runtime.Version(), "go")}
	if err := pool.QueryRow(ctx, "show server_version").Scan(&m.PostgreSQL); err != nil {
		return nil, err
	}
	m.PostgreSQL, _, _ = strings.Cut(m.PostgreSQL, " ")
	m.Fsync, err = fsyncLatency()
	return &report{When: time.Now().UTC(), Machine: m, Rounds: b.rounds, Slice: b.slice, Quick: b.quick}, err
}

func (r *report) markdown() string {
	var w strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	m := r.Machine
	p("<!-- Generated: cd bench && go run . -o RESULTS.md -->")
	p("# Results")
	p("")
	p("Repeat with `cd bench && go run . -o RESULTS.md`; `-quick` takes a look in a minute. PostgreSQL 15 or later must be")
	p("installed, and MariaDB and MySQL for their section (`make setup`); private servers are started and removed.")
	p("")
	p("%s · %d cores, %s/%s, client and server on the same ones · Go %s · PostgreSQL %s, fsync and synchronous_commit on · fsync of 8 KiB: %s",
		r.When.Format(time.DateOnly), m.CPUs, m.OS, m.Arch, m.Go, m.PostgreSQL, millis(m.Fsync))
	p("")
	p("The business transaction is two inserts. **bare** has no idempotency at all. **insert-update** keeps a key row in the same")
	p("transaction: inserted before the work, completed after it. **two-commit** commits the key, then the work, then the response,")
	p("as most middleware does. **Do** is `once.Do` on pgxstore, for clients that say nothing about their attempts; **Do, first")
	p("attempt** is told that it is one (`Attempt.Number` is 1), as each request of retryhttp tells that is no retry; **replays** ask")
	p("again for what was executed, **replays elsewhere** do so in a process that has not seen the operation before. All store the")
	p("same response of about 300 bytes and the same fingerprint, in tables of the same columns, through a pool with one")
	p("connection per client.")
	p("")
	p("Contestants take turns in slices of %s, %d rounds. Every ratio is one of throughputs within a round: median [least .. most].", r.Slice, r.Rounds)
	p("**By CPU time** is the same ratio in CPU time of client and server together, which other programs on the machine disturb")
	p("less; it says nothing about waiting. A bar is met or not by the median of this run. Load average of the machine: %s before", r.Load[0])
	p("and %s after the run.", r.Load[1])
	for _, c := range r.chapters() {
		w.WriteString(c.text())
	}
	return w.String()
}

// chapter is the text of one section.
type chapter struct {
	section string
	write   func(printer)
}

// chapters are the measured sections, in the order of the report.
func (r *report) chapters() (list []chapter) {
	add := func(measured bool, section string, write func(printer)) {
		if measured {
			list = append(list, chapter{section, write})
		}
	}
	several := func(all []throughput) func(printer) {
		return func(p printer) {
			for _, s := range all {
				s.write(p)
			}
		}
	}
	add(len(r.Costs) > 0, "trips", r.writeCosts)
	for _, s := range r.Settings {
		add(true, s.Slug, s.write)
	}
	add(len(r.Serializable) > 0, "serializable", func(p printer) {
		p("\n## SERIALIZABLE\n")
		p("All but the last contestant run at SERIALIZABLE, with different keys. Nothing is run again (`Config.Runs` is 1): one conflict")
		p("would have ended the measurement.")
		several(r.Serializable)(p)
	})
	add(r.Optimistic != nil, "optimistic", r.writeOptimistic)
	add(len(r.Batch) > 0, "batch", func(p printer) {
		p("\n## Batch form\n")
		p("`once.DoBatch`: the same two inserts, with key, response and COMMIT in one round trip. The bare transaction has four.")
		several(r.Batch)(p)
	})
	add(r.Growth != nil, "growth", func(p printer) { r.Growth.write(p) })
	add(r.Middleware != nil, "memory", func(p printer) { r.Middleware.write(p) })
	add(r.SQLite != nil, "sqlite", func(p printer) { r.SQLite.write(p) })
	add(r.Groups != nil, "group", func(p printer) { writeGroups(p, r.Groups) })
	add(r.MySQL != nil, "mysql", func(p printer) { r.MySQL.write(p) })
	add(r.Sweeping != nil, "sweep", r.Sweeping.write)
	add(r.HTTP != nil, "cache", func(p printer) { r.HTTP.write(p) })
	add(len(r.Outbox) > 0, "outbox", r.writeOutbox)
	add(r.Relay != nil, "relay", func(p printer) { r.Relay.write(p) })
	add(r.Earlier != nil, "earlier", func(p printer) { r.Earlier.write(p) })
	add(r.Isolation != nil, "isolation", func(p printer) { r.Isolation.write(p) })
	add(r.Inbox != nil, "inbox", func(p printer) { r.Inbox.write(p) })
	add(r.Lease != nil, "lease", r.writeLease)
	add(r.Sagas != nil, "saga", func(p printer) { r.Sagas.write(p) })
	add(r.Webhooks != nil, "webhook", func(p printer) { r.Webhooks.write(p) })
	add(r.Gateway != nil, "gateway", func(p printer) { r.Gateway.write(p) })
	add(r.Home != nil, "home", func(p printer) { r.Home.write(p) })
	add(r.Shared != nil, "shared", r.writeShared)
	add(r.Redis != nil, "redis", r.writeRedis)
	add(r.Telemetry != nil, "telemetry", r.writeTelemetry)
	add(r.Herd != nil, "pool", func(p printer) { r.Herd.write(p) })
	add(r.Console != nil, "console", func(p printer) { r.Console.write(p) })
	return list
}

type printer func(format string, a ...any)

func (r *report) writeCosts(p printer) {
	p("\n## Round trips and commits per operation\n")
	p("Counted: reads after a write on the client's socket; the server's statistics. 1 client, warm.\n")
	p("| | round trips | commits | rollbacks | WAL syncs | extra trips / commits against bare | bar | |")
	p("|---|---|---|---|---|---|---|---|")
	base := r.Costs[0]
	for _, c := range r.Costs {
		bar, holds := "", ""
		trips, commits := c.Trips-base.Trips, c.Commits-base.Commits
		if c.Name == nameDo || c.Name == nameFirst {
			bar, holds = "0 / 0", word(trips <= 0 && commits <= 0)
		}
		p("| %s | %.4g | %.4g | %.4g | %.4g | %+.4g / %+.4g | %s | %s |", c.Name, c.Trips, c.Commits, c.Rollbacks, c.Syncs, trips, commits, bar, holds)
	}
}

func (t *throughput) write(p printer) {
	p("\n## %s\n", t.Title)
	t.writeBody(p)
}

func (t *throughput) writeBody(p printer) {
	p("A round trip of an idle client takes %s.\n", millis(t.RoundTrip))
	writeVerdicts(p, t.Verdicts)
	writeFigures(p, t.Figures)
}

func writeFigures(p printer, figures []figure) {
	p("\n| per operation here | CPU client | CPU server | operations a second |")
	p("|---|---|---|---|")
	for _, f := range figures {
		p("| %s | %.0f µs | %.0f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
	}
}

func writeVerdicts(p printer, verdicts []verdict) {
	p("| throughput | ratio | bar | | by CPU time |")
	p("|---|---|---|---|---|")
	for _, v := range verdicts {
		p("| %s | %s | %.2f |", v.What, v.cells(), v.CPU)
	}
}

// cells are ratio, bar and verdict.
func (v verdict) cells() string {
	s := fmt.Sprintf("**%.2f** [%.2f .. %.2f] | ", v.Median, v.Min, v.Max)
	if v.Holds == nil {
		return s + "| "
	}
	sign := ">="
	if v.AtMost {
		sign = "<="
	}
	return s + fmt.Sprintf("%s %.4g | %s", sign, v.Bar, word(*v.Holds))
}

func word(holds bool) string {
	if holds {
		return "holds"
	}
	return "**does not hold**"
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", micros(d)/1000) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
