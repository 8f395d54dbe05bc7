package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The outbox of this commit against that of an earlier one: the same program, built in both, on a database that each has migrated.

// relayEarlier is what the comparison has found.
type relayEarlier struct {
	Commit   string    `json:"commit"`
	Rounds   int       `json:"rounds"`
	Messages int       `json:"messages"`
	Verdicts []verdict `json:"verdicts"` // of speeds
	Delays   []verdict `json:"delays"`   // of p99
	Figures  []figure  `json:"figures"`
	P99      []delayed `json:"p99"`
}

// release is relayprocess as one commit has it.
type release struct{ name, program string }

const (
	nameNow     = "now"
	nameEarlier = "earlier"
)

// relayEarlier compares with the commit that -earlier names.
func (b *bench) relayEarlier(ctx context.Context) (e *relayEarlier, err error) {
	dir, err := os.MkdirTemp("", "once-bench-earlier-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e = &relayEarlier{Commit: b.earlier, Rounds: 5, Messages: 150_000}
	if b.quick {
		e.Rounds, e.Messages = 3, 15_000
	}
	releases := []*release{{name: nameNow, program: filepath.Join(dir, nameNow)}, {name: nameEarlier, program: filepath.Join(dir, nameEarlier)}}
	if err := build(ctx, ".", releases[0].program); err != nil {
		return nil, err
	}
	if err := buildEarlier(ctx, b.earlier, filepath.Join(dir, "tree"), releases[1].program); err != nil {
		return nil, err
	}
	return e, b.compare(ctx, e, releases)
}

func build(ctx context.Context, bench, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./relayprocess")
	cmd.Dir = bench
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// buildEarlier builds this relayprocess with the packages of an earlier commit.
func buildEarlier(ctx context.Context, commit, tree, program string) (err error) {
	git := func(args ...string) error {
		if out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	if err := git("worktree", "add", "--detach", tree, commit); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, git("worktree", "remove", "--force", tree)) }()
	source, err := os.ReadFile(filepath.Join("relayprocess", "main.go"))
	if err != nil {
		return err
	}
	to := filepath.Join(tree, "bench", "relayprocess")
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "main.go"), source, 0o600); err != nil { //nolint:gosec // a directory of ours
		return err
	}
	return build(ctx, filepath.Join(tree, "bench"), program)
}

// compared is one thing that both releases do.
type compared struct {
	name    string
	args    []string // behind the DSN
	topics  int      // of the backlog that is there before; 0: none
	per     int      // messages
	bar     float64  // of the speed, or of the delay
	isDelay bool
}

func (b *bench) compare(ctx context.Context, e *relayEarlier, releases []*release) error {
	n := strconv.Itoa(e.Messages)
	seconds := 5
	if b.quick {
		seconds = 2
	}
	list := []compared{
		{name: "drain, 1 topic", args: []string{"drain", n}, topics: 1, per: e.Messages, bar: 0.95},
		{name: "drain, 10 topics", args: []string{"drain", n}, topics: 10, per: e.Messages, bar: 0.95},
		{name: "drain, 1,000 topics", args: []string{"drain", n}, topics: 1000, per: e.Messages, bar: 1.2},
		{name: "Add with key", args: []string{"add", strconv.Itoa(e.Messages / 10)}, per: e.Messages / 10, bar: 1 / 1.1},
		{name: "bulk insert", per: e.Messages, bar: 1 / 1.6},
		{name: "delay at 1,000 a second", args: []string{"delay", strconv.Itoa(seconds)}, per: (1 + seconds) * delayRate, bar: 1.1, isDelay: true},
	}
	templates := map[string]string{}
	for _, r := range releases {
		for _, topics := range []int{0, 1, 10, 1000} {
			database, err := b.filled(ctx, r, topics, e.Messages)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			templates[r.name+strconv.Itoa(topics)] = database
		}
	}
	laps, err := b.inTurns(ctx, e.Rounds, list, releases, templates)
	if err != nil {
		return err
	}
	for _, c := range list {
		e.judge(c, laps)
	}
	return nil
}

// earlierLaps are the laps of both releases, by what they do and the name of the release.
type earlierLaps struct {
	field map[string]*contestant
	p50   map[string][]float64
}

// inTurns has the releases do everything.
func (b *bench) inTurns(ctx context.Context, rounds int, list []compared, releases []*release, templates map[string]string) (laps earlierLaps, err error) {
	laps = earlierLaps{map[string]*contestant{}, map[string][]float64{}}
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "bench: earlier commit, round %d of %d\n", round+1, rounds)
		for _, c := range list {
			for _, i := range rand.Perm(len(releases)) {
				r := releases[i]
				name := c.name + ", " + r.name
				l, m, err := b.once(ctx, r, c, templates[r.name+strconv.Itoa(c.topics)])
				if err != nil {
					return laps, fmt.Errorf("%s: %w", name, err)
				}
				if laps.field[name] == nil {
					laps.field[name] = &contestant{name: name}
				}
				laps.field[name].laps = append(laps.field[name].laps, l)
				laps.p50[name] = append(laps.p50[name], float64(m.P50))
			}
		}
	}
	return laps, nil
}

// judge compares what both releases have done of c.
func (e *relayEarlier) judge(c compared, laps earlierLaps) {
	now, earlier := laps.field[c.name+", "+nameNow], laps.field[c.name+", "+nameEarlier]
	both := []*contestant{now, earlier}
	if c.isDelay {
		v := judge(both, comparison{earlier.name, now.name, c.bar}) // of delays, not of speeds
		v.What, v.AtMost = c.name, true
		e.Delays = append(e.Delays, v.judged())
		for _, each := range both {
			middle, _, _ := spread(laps.p50[each.name])
			e.P99 = append(e.P99, delayed{each.name, time.Duration(middle), time.Duration(float64(time.Second) / each.figure().PerSecond)})
		}
		return
	}
	v := judge(both, comparison{now.name, earlier.name, c.bar})
	v.What = c.name
	e.Verdicts = append(e.Verdicts, v)
	e.Figures = append(e.Figures, now.figure(), earlier.figure())
}

// filled makes a database with the tables of r and a backlog, which is copied for each run.
func (b *bench) filled(ctx context.Context, r *release, topics, messages int) (string, error) {
	database, err := b.server.emptyDatabase() // the earlier commit refuses tables of this one
	if err != nil {
		return "", err
	}
	commands := [][]string{{"migrate", b.server.pg.URL(database)}}
	if topics > 0 {
		commands = append(commands, []string{"fill", b.server.pg.URL(database), strconv.Itoa(messages), strconv.Itoa(topics)})
	}
	for _, args := range commands {
		if out, err := exec.CommandContext(ctx, r.program, args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	pool, err := b.server.pool(ctx, database, 1, nil)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, "vacuum analyze")
	return database, err
}

// processMeasured is what relayprocess says.
type processMeasured struct {
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"`
	P50  time.Duration `json:"p50"`
	P99  time.Duration `json:"p99"`
}

// once runs c on a copy of a database.
func (b *bench) once(ctx context.Context, r *release, c compared, template string) (l lap, m processMeasured, err error) {
	const database = "compared"
	admin, err := b.server.pool(ctx, "postgres", 1, nil)
	if err != nil {
		return l, m, err
	}
	defer admin.Close()
	for _, s := range []string{"create database " + database + " template " + template + " strategy file_copy", "checkpoint"} {
		if _, err := admin.Exec(ctx, s); err != nil {
			return l, m, err
		}
	}
	defer func() {
		_, e := admin.Exec(ctx, "drop database "+database+" with (force)")
		err = errors.Join(err, e)
	}()
	var server time.Duration
	if len(c.args) == 0 {
		m, server, err = b.bulkInsert(ctx, database, c.per)
	} else {
		m, server, err = b.runProcess(ctx, r.program, append([]string{c.args[0], b.server.pg.URL(database)}, c.args[1:]...))
	}
	n := time.Duration(c.per)
	l = lap{m.Wall / n, m.CPU / n, server / n, int64(c.per)}
	if c.isDelay {
		l.wall = m.P99
	}
	return l, m, err
}

// bulkInsert adds messages with one statement.
func (b *bench) bulkInsert(ctx context.Context, database string, messages int) (m processMeasured, server time.Duration, err error) {
	pool, err := b.server.pool(ctx, database, 1, nil)
	if err != nil {
		return m, 0, err
	}
	defer pool.Close()
	_, before := b.server.cpu().used()
	began := time.Now()
	err = backlogOf(10, "bulk", messages/10, 100)(ctx, pool)
	m.Wall = time.Since(began)
	_, after := b.server.cpu().used()
	return m, after - before, err
}

// runProcess runs relayprocess and reads how long the server has run between what it says.
func (b *bench) runProcess(ctx context.Context, program string, args []string) (m processMeasured, server time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return m, 0, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return m, 0, err
	}
	if err := cmd.Start(); err != nil {
		return m, 0, err
	}
	err = errors.New("it has measured nothing")
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		word, text, _ := strings.Cut(lines.Text(), " ")
		_, used := b.server.cpu().used()
		switch word {
		case "begin":
			server = used
		case "end":
			server = used - server
			err = json.Unmarshal([]byte(text), &m)
			_ = stdin.Close()
		}
	}
	_, _ = io.Copy(io.Discard, stdout)
	return m, server, errors.Join(err, cmd.Wait())
}

func (e *relayEarlier) write(p printer) {
	p("\n## Outbox, against an earlier commit\n")
	p("The same program, built with this commit and with %s, in turns: %s messages with 1,000 keys, or as many transactions as a tenth of that.", e.Commit, thousands(int64(e.Messages)))
	p("Add and bulk insert have one index more. %d rounds.\n", e.Rounds)
	writeVerdicts(p, e.Verdicts)
	p("\n| p99 of the delay | ratio | bar | | by CPU time |")
	p("|---|---|---|---|---|")
	for _, v := range e.Delays {
		p("| %s | %s | %.2f |", v.What, v.cells(), v.CPU)
	}
	p("\n| per message here | CPU client | CPU server | messages a second |")
	p("|---|---|---|---|")
	for _, f := range e.Figures {
		p("| %s | %.1f µs | %.1f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
	}
	p("\n| here | p50 | p99 |")
	p("|---|---|---|")
	for _, r := range e.P99 {
		p("| %s | %s | %s |", r.Name, millis(r.P50), millis(r.P99))
	}
}
