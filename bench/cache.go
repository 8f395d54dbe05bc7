package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/oncelib/once"
)

// Contestants over HTTP.
const (
	nameHTTPCache     = "replays from the cache"
	nameHTTPDatabase  = "replays from the database"
	nameHTTPTwoCommit = "replays of two-commit"
	nameHTTPFiber     = "replays of Fiber's middleware, memory storage"
	nameHTTPFloor     = "net/http that does nothing"
	nameHTTPDo        = "executions, once"
	nameHTTPFirst     = "executions, once, first attempts"
	nameHTTPDoTwo     = "executions, two-commit"
	nameHTTPDoFiber   = "executions, Fiber's middleware"
)

const (
	httpClients = 16
	httpBar     = 3
)

var httpComparisons = []comparison{
	{nameHTTPCache, nameHTTPDatabase, httpBar},
	{nameHTTPCache, nameHTTPTwoCommit, 0},
	{nameHTTPCache, nameHTTPFiber, 0},
	{nameHTTPCache, nameHTTPFloor, 0},
	{nameHTTPDatabase, nameHTTPTwoCommit, 0},
	{nameHTTPDo, nameHTTPDoTwo, 0},
	{nameHTTPFirst, nameHTTPDoTwo, 0},
	{nameHTTPDo, nameHTTPDoFiber, 0},
	{nameHTTPFirst, nameHTTPDoFiber, 0},
}

// overHTTP has the costs of a request from socket to socket.
type overHTTP struct {
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
}

// rival is a service, with the differences that its clients need.
type rival struct {
	*process
	*wires

	known []retried
}

// retried is a request that was executed before the measurement.
type retried struct {
	key          string
	body, answer []byte
}

// learn executes n requests.
func (v *rival) learn(n int) error {
	v.known = make([]retried, n)
	errs := make([]error, httpClients)
	var wg sync.WaitGroup
	for client := range httpClients {
		wg.Go(func() {
			for i := client; i < n && errs[client] == nil; i += httpClients {
				v.known[i], errs[client] = v.fresh("")
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fresh executes a new request, with additional header lines.
func (v *rival) fresh(header string) (r retried, err error) {
	if r.body, err = json.Marshal(newOrder()); err != nil {
		return r, err
	}
	r.key = once.NewKey()
	r.answer, err = v.post(r.key, header, r.body, nil)
	return r, err
}

func (v *rival) replay(context.Context) error {
	k := &v.known[rand.N(len(v.known))]
	_, err := v.post(k.key, "", k.body, k.answer)
	return err
}

func (v *rival) execute(context.Context) error {
	_, err := v.fresh("")
	return err
}

// first is execute by a client that marks its first attempt, as retryhttp does.
func (v *rival) first(context.Context) error {
	_, err := v.fresh("Once-Attempt: 1\r\n")
	return err
}

func (b *bench) overHTTP(ctx context.Context) (_ *overHTTP, err error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "once-bench-rivals-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	r := race{clients: httpClients, rounds: b.rounds, slice: b.slice, cpu: b.server.cpu()}
	rivals := map[string]*rival{}
	for _, name := range []string{nameHTTPCache, nameHTTPDatabase, nameHTTPTwoCommit, nameHTTPFiber, nameHTTPFloor} {
		v, program := new(rival), self
		if folder, ok := rivalFolders[name]; ok {
			if program, err = buildRival(ctx, folder, dir); err != nil {
				return nil, err
			}
		}
		if v.process, err = startProcess(ctx, program, name, b.server.pg.URL(database)); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, v.process.close()) }()
		if v.wires, err = dial(ctx, v.addr, httpClients); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, v.wires.close()) }()
		r.cpu.others = append(r.cpu.others, v.cmd.Process.Pid)
		rivals[name] = v
		run := v.execute // execute writes nothing for it
		if name != nameHTTPFloor {
			run = v.replay
			if err := v.learn(recent); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		r.field = append(r.field, &contestant{name: name, run: run})
	}
	executions := []*contestant{
		{name: nameHTTPDo, run: rivals[nameHTTPDatabase].execute},
		{name: nameHTTPFirst, run: rivals[nameHTTPDatabase].first},
		{name: nameHTTPDoTwo, run: rivals[nameHTTPTwoCommit].execute},
		{name: nameHTTPDoFiber, run: rivals[nameHTTPFiber].execute},
	}
	r.field = append(r.field, executions...)
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if err := b.auditHTTP(ctx, database, executions); err != nil {
		return nil, err
	}
	o := new(overHTTP)
	for _, c := range r.field {
		o.Figures = append(o.Figures, c.figure())
	}
	for _, c := range httpComparisons {
		o.Verdicts = append(o.Verdicts, judge(r.field, c))
	}
	return o, nil
}

// auditHTTP counts the written rows: one for each execution, and none for replays.
func (b *bench) auditHTTP(ctx context.Context, database string, executions []*contestant) error {
	pool, err := b.server.pool(ctx, database, 1, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	want, rows := int64(4*recent), int64(0)
	for _, c := range executions {
		want += c.ops
	}
	if err := pool.QueryRow(ctx, "select count(*) from charge").Scan(&rows); err != nil {
		return err
	}
	if rows != want {
		return fmt.Errorf("%d executions have left %d charges", want, rows)
	}
	return nil
}

// rivalFolders are the folders of the rivals in the module ./rivals.
var rivalFolders = map[string]string{nameHTTPTwoCommit: "twocommit", nameHTTPFiber: "fiber"}

// buildRival builds a rival into dir. Its module is not in go.work, so that it does not affect the versions of other modules.
func buildRival(ctx context.Context, folder, dir string) (program string, err error) {
	program = filepath.Join(dir, folder)
	build := exec.CommandContext(ctx, "go", "-C", filepath.Join("rivals", folder), "build", "-o", program, ".")
	build.Env = append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the rival in ./rivals/%s: %w: %s. Try: cd bench", folder, err, out)
	}
	return program, nil
}

func (o *overHTTP) write(p printer) {
	p("\n## Over HTTP, %d clients\n", httpClients)
	p("From socket to socket: each service is a process of its own, PostgreSQL and the clients run on the same cores. Replays")
	p("are of %d operations that the service has executed, and each is compared with the first answer byte by byte. **From the", recent)
	p("cache** is `Config.Cache`, **from the database** is without. **two-commit** is middleware written by hand on net/http,")
	p("in ./rivals/twocommit. **Fiber** is its idempotency middleware as it comes, on fasthttp: keys in its memory, which a crash or")
	p("another process does not see, for everybody, and without a look at what is asked for. **First attempts** say so, with")
	p("Once-Attempt: 1.\n")
	writeVerdicts(p, o.Verdicts)
	p("\n| per request here | CPU client | CPU server | requests a second |")
	p("|---|---|---|---|")
	for _, f := range o.Figures {
		p("| %s | %.0f µs | %.0f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
	}
}
