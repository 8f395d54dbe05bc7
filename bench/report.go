package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// report is what a run has found.
type report struct {
	When         time.Time     `json:"when"`
	Machine      machine       `json:"machine"`
	Rounds       int           `json:"rounds"`
	Slice        time.Duration `json:"slice_ns"`
	Quick        bool          `json:"quick,omitempty"`
	Costs        []cost        `json:"costs,omitempty"`
	Settings     []throughput  `json:"settings,omitempty"`
	Serializable []throughput  `json:"serializable,omitempty"`
	Batch        []throughput  `json:"batch,omitempty"`
	Growth       *growth       `json:"growth,omitempty"`
	Middleware   *middleware   `json:"middleware,omitempty"`
	SQLite       *sqlite       `json:"sqlite,omitempty"`
	Groups       []grouped     `json:"groups,omitempty"`
	Guard        guard         `json:"guard,omitempty"`
	Sweeping     sweeping      `json:"sweeping,omitempty"`
	HTTP         *overHTTP     `json:"over_http,omitempty"`
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
	p("installed; a private server is started and removed.")
	p("")
	p("%s · %d cores, %s/%s, client and server on the same ones · Go %s · PostgreSQL %s, fsync and synchronous_commit on · fsync of 8 KiB: %s",
		r.When.Format(time.DateOnly), m.CPUs, m.OS, m.Arch, m.Go, m.PostgreSQL, millis(m.Fsync))
	p("")
	p("The business transaction is two inserts. **bare** has no idempotency at all. **insert-update** keeps a key row in the same")
	p("transaction: inserted before the work, completed after it. **two-commit** commits the key, then the work, then the response,")
	p("as most middleware does. **Do** is `once.Do` on pgxstore, for clients that say nothing about their attempts; **Do, first")
	p("attempt** is told that it is one (`Operation.First`), as each request of retryhttp tells that is no retry; **replays** ask")
	p("again for what was executed, **replays elsewhere** do so in a process that has not seen the operation before. All store the")
	p("same response of about 300 bytes and the same fingerprint, in tables of the same columns, through a pool with one")
	p("connection per client.")
	p("")
	p("Contestants take turns in slices of %s, %d rounds. Every ratio is one of throughputs within a round: median [least .. most].", r.Slice, r.Rounds)
	p("**By CPU time** is the same ratio in CPU time of client and server together, which other programs on the machine disturb")
	p("less; it says nothing about waiting. A bar is met or not by the median of this run.")
	r.writeCosts(p)
	for _, s := range r.Settings {
		s.write(p)
	}
	if len(r.Serializable) > 0 {
		p("\n## SERIALIZABLE\n")
		p("All but the last contestant run at SERIALIZABLE, with different keys. Nothing is run again (`Config.Runs` is 1): one conflict")
		p("would have ended the measurement.")
	}
	for _, s := range r.Serializable {
		s.write(p)
	}
	if len(r.Batch) > 0 {
		p("\n## Batch form\n")
		p("`once.DoBatch`: the same two inserts, with key, response and COMMIT in one round trip. The bare transaction has four.")
	}
	for _, s := range r.Batch {
		s.write(p)
	}
	if r.Growth != nil {
		r.Growth.write(p)
	}
	if r.Middleware != nil {
		r.Middleware.write(p)
	}
	if r.SQLite != nil {
		r.SQLite.write(p)
	}
	if r.Groups != nil {
		writeGroups(p, r.Groups)
	}
	if r.Guard != nil {
		r.Guard.write(p)
	}
	if r.Sweeping != nil {
		r.Sweeping.write(p)
	}
	if r.HTTP != nil {
		r.HTTP.write(p)
	}
	return w.String()
}

type printer func(format string, a ...any)

func (r *report) writeCosts(p printer) {
	if len(r.Costs) == 0 {
		return
	}
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
	p("A round trip of an idle client takes %s.\n", millis(t.RoundTrip))
	writeVerdicts(p, t.Verdicts)
	p("\n| per operation here | CPU client | CPU server | operations a second |")
	p("|---|---|---|---|")
	for _, f := range t.Figures {
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
