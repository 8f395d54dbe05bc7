package killstorm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// Worker is a client as a process of its own: package retryhttp with a journal, on a faulty network. It can be killed at any moment.
type Worker struct {
	Address string // of the service
	Tenant  string
	Journal string // its path
	Seed    uint64

	tell *lines
	http *http.Client
}

// Run resumes the intents in the journal of an earlier process. Then it does the jobs that it reads from in, and writes events to out.
func (w *Worker) Run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	w.tell = newLines(out)
	intents, err := journal.Open(w.Journal, journal.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, intents.Close()) }()
	w.http = &http.Client{Transport: &retryhttp.Transport{
		Base:    network{w},
		Journal: intents,
		Dialect: retryhttp.Dialect{Announce: true}, // it is the same library, so announcing is safe
		Policy: retry.Policy{
			Attempts: 1 << 20, Base: firstBackoff, Cap: longestWait, Total: time.Minute,
			// A quarter of all attempts fail, and a killed service fails all running requests: a budget of one retry in ten would, rightly, give up.
			// An intent that was given up proves nothing, neither that it took effect once nor that it did not; so here each is repeated until it has
			// an answer, and the service must withstand that.
			Budget:  &retry.Budget{Burst: -1},
			Observe: func(ctx context.Context, e retry.Event) { taskOf(ctx).delay = e.Wait },
		},
	}}
	_, err = journal.Resume(ctx, intents, w.http, journal.Options{Answer: func(in journal.Intent, resp *http.Response) error {
		return w.take(event{Key: in.Key, Sent: string(in.Body)}, resp)
	}})
	if err != nil {
		return err
	}
	if err := w.tell.write(event{Kind: ready}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var jobs sync.WaitGroup
	defer jobs.Wait()
	defer cancel() // if the input ends while jobs are running, the parent process has ended
	for lines := json.NewDecoder(in); ; {
		var j job
		if err := lines.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		jobs.Go(func() { w.do(ctx, j) })
	}
}

// do sends the request of a job until it is answered.
func (w *Worker) do(ctx context.Context, j job) {
	e := event{Kind: done, Job: j.ID}
	if err := w.ask(ctx, j); err != nil {
		e.Error = err.Error()
	}
	_ = w.tell.write(e) // an error means that the parent process has ended
}

func (w *Worker) ask(ctx context.Context, j job) error {
	t := &task{job: j, rng: (&order{index: j.Order}).rng(w.Seed, j.Sender)}
	ctx = context.WithValue(ctx, keyOfTask{}, t)
	ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: j.Key})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.Address+j.Path, strings.NewReader(j.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	// The order matters: closing the body ends the intent, so it must come after the answer was handed over.
	return errors.Join(w.take(event{Job: j.ID}, resp), resp.Body.Close())
}

// take reports an answer to the parent process.
func (w *Worker) take(e event, resp *http.Response) (err error) {
	e.Kind, e.Status, e.Header = answered, resp.StatusCode, resp.Header
	if e.Body, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	return w.tell.write(e)
}

// task is a job while its requests are sent.
type task struct {
	job

	rng   *rand.Rand // nil means no faults
	tries int
	delay time.Duration // the pause before the next attempt
}

type keyOfTask struct{}

func taskOf(ctx context.Context) *task {
	if t, ok := ctx.Value(keyOfTask{}).(*task); ok {
		return t
	}
	return new(task)
}

// fate chooses the fault of the next attempt.
func (t *task) fate() fate {
	t.tries++
	switch {
	case t.Doomed:
		return doom
	case !t.Fated:
		return deliver
	}
	f := pickFate(t.rng)
	if t.Order%10 == 0 && t.tries == 1 {
		f = drop
	}
	return f
}
