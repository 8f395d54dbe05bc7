package killstorm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"sync"
)

// process is one client process, which is started again after each kill.
type process struct {
	*Fleet

	journal string
	last    tail // the end of its standard error

	starting sync.Mutex // held while no process is running
	stdin    io.WriteCloser
	tell     *lines

	mu      sync.Mutex
	cmd     *exec.Cmd
	dying   bool // it was killed, or is ending
	ended   chan struct{}
	resumed chan struct{} // closed when the process has resumed its intents
	jobs    map[int]*flight
	next    int
}

// flight is a job that has no final answer yet.
type flight struct {
	job

	landed chan struct{}
	answer *answer
	err    error
	fatal  bool // its client was killed because the job is doomed
	notes  string
}

// start starts the process, and waits until it has resumed the intents of its journal.
func (p *process) start(ctx context.Context) error {
	cmd := p.Command(p.storm.Server.address, p.journal)
	cmd.Stderr = &p.last
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	diesWithUs(cmd)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a client: %w", err)
	}
	p.stdin, p.tell = stdin, newLines(stdin)
	resumed, ended := make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	p.cmd, p.dying, p.resumed, p.ended = cmd, false, resumed, ended
	p.mu.Unlock()
	go p.read(cmd, stdout, ended)
	select {
	case <-resumed:
		return nil
	case <-ended:
		return fmt.Errorf("a client ended by itself; the demo did not kill it. Output of the client: %s", &p.last)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read reads the events of a process, up to the last line that it has written.
func (p *process) read(cmd *exec.Cmd, out io.Reader, ended chan struct{}) {
	defer close(ended)
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadBytes('\n')
		if err != nil { // the process was killed while it wrote the last line
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			p.fail(fmt.Errorf("a client has written a line that cannot be read, %q: %w", line, err))
			break
		}
		p.hear(e)
	}
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dying {
		p.fail(fmt.Errorf("a client ended by itself; the demo did not kill it: %w. Output of the client: %s", err, &p.last))
	}
}

func (p *process) hear(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.jobs[e.Job]
	switch e.Kind {
	case left:
		if f == nil {
			break
		}
		p.storm.reached.raise(f.Order + 1)
		p.storm.sent.count()
		if f.Doomed && !p.dying {
			p.dying, f.fatal = true, true
			go p.kill()
		}
	case tried:
		v := verdict{word: e.Word, status: e.Status, code: e.Code}
		p.storm.log.attempt(e.Attempt, e.Delay, e.Key, v)
		p.storm.tally.attempt(v)
	case answered:
		a := &answer{e.Status, e.Header, e.Body}
		if f != nil {
			f.answer = a
			break
		}
		p.storm.tally.resumed()
		for _, f := range p.jobs { // all jobs with this key are one intent
			if f.Key == e.Key && f.Body == e.Sent && f.answer == nil {
				f.answer, f.notes = a, "resumed by the next process"
			}
		}
	case done:
		if f != nil && f.answer == nil {
			f.err = errors.New(e.Error)
		}
		p.land(e.Job)
	case ready:
		close(p.resumed)
	}
}

// land ends a flight. The caller holds p.mu.
func (p *process) land(id int) {
	if f := p.jobs[id]; f != nil {
		delete(p.jobs, id)
		close(f.landed)
	}
}

// kill kills the process in the middle of its work, and starts it again. Jobs that were neither answered nor written to its journal are sent
// again.
func (p *process) kill() {
	p.starting.Lock()
	defer p.starting.Unlock()
	if sleep(p.ctx, rand.N(killDelay)) != nil {
		return
	}
	err := p.cmd.Process.Kill()
	<-p.ended
	if err == nil {
		p.storm.tally.killedClient()
		p.storm.progress()
		err = p.start(p.ctx)
	}
	if err != nil {
		p.fail(err)
		return
	}
	for _, j := range p.rest() {
		if err := p.tell.write(j); err != nil {
			p.fail(err)
		}
	}
}

// rest ends the flights that have an answer, and returns the other jobs.
func (p *process) rest() (jobs []job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, f := range p.jobs {
		if f.answer != nil {
			p.land(id)
		} else {
			f.Doomed = f.Doomed && !f.fatal
			jobs = append(jobs, f.job)
		}
	}
	return jobs
}
