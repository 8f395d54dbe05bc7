package killstorm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/oncelib/once/retry/journal"
)

// Fleet is the client processes. Each has a journal, and each is killed from time to time and started again.
type Fleet struct {
	// Command returns a command that runs a [Worker] when it is started.
	Command func(address, journal string) *exec.Cmd

	Processes int
	Dir       string // for the journals

	storm *Storm
	ctx   context.Context //nolint:containedctx // the context of the storm, with which new processes are started
	all   []*process
	fail  context.CancelCauseFunc // called when a process has ended by itself
}

func (f *Fleet) start(ctx context.Context, s *Storm, fail context.CancelCauseFunc) error {
	f.storm, f.ctx, f.fail = s, ctx, fail
	for i := range f.Processes {
		p := &process{Fleet: f, journal: filepath.Join(f.Dir, fmt.Sprintf("client-%d.journal", i+1)), jobs: map[int]*flight{}}
		f.all = append(f.all, p)
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ask gives a job to a client. If the job is doomed, the client is killed, and jobs of other clients may be lost with it.
func (f *Fleet) ask(ctx context.Context, j job) (*flight, error) {
	return f.all[(j.Order+j.Sender)%len(f.all)].ask(ctx, j)
}

func (p *process) ask(ctx context.Context, j job) (*flight, error) {
	p.starting.Lock()
	p.mu.Lock()
	p.next++
	j.ID = p.next
	fl := &flight{job: j, landed: make(chan struct{})}
	p.jobs[j.ID] = fl
	p.mu.Unlock()
	err := ctx.Err()
	if err == nil {
		err = p.tell.write(j)
	}
	p.starting.Unlock()
	if p.isDying() { // the job is lost with the process, and is sent again
		err = nil
	}
	if err != nil {
		return fl, err
	}
	select {
	case <-fl.landed:
		return fl, fl.err
	case <-ctx.Done():
		return fl, context.Cause(ctx)
	}
}

func (p *process) isDying() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dying
}

// end stops the clients, and returns the number of open intents in their journals, which should be 0.
func (f *Fleet) end() (open int, err error) {
	for _, p := range f.all {
		p.starting.Lock()
		p.mu.Lock()
		p.dying = true
		p.mu.Unlock()
		err = errors.Join(err, p.stdin.Close())
		<-p.ended
		p.starting.Unlock()
		list, damage, failed := journal.Read(p.journal)
		err = errors.Join(err, failed)
		if damage.Bytes > 0 {
			err = errors.Join(err, fmt.Errorf("%s has only a part of its writes: %+v", p.journal, damage))
		}
		open += len(list)
	}
	return open, err
}

// stop kills the processes that are still running.
func (f *Fleet) stop() {
	for _, p := range f.all {
		p.starting.Lock()
		p.mu.Lock()
		p.dying = true
		p.mu.Unlock()
		if cmd := p.cmd; cmd != nil {
			_ = cmd.Process.Kill() // it may have ended
			<-p.ended
		}
		p.starting.Unlock()
	}
}
