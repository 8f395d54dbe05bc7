// Package crash finds out whether an HTTP service keeps its idempotency keys when it is killed. It starts the service, sends a request with a key,
// kills the service meanwhile, starts it again, repeats the request like a client without an answer, and counts effects.
package crash

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/oracle"
	"github.com/oncelib/once/cmd/once/internal/process"
	"github.com/oncelib/once/cmd/once/internal/request"
)

// Config says which service to kill, and how. All fields are required except Proxies and Quoted.
type Config struct {
	Command   []string
	Request   *request.Request
	KeyHeader string
	Quoted    bool         // a key is a string of structured fields: "k"
	Effects   oracle.Count // counts all effects
	Proxies   []Proxy      // between the command and its databases; without them the kills are timed by the clock
	Kills     int          // at most
	Patience  time.Duration
}

// run is one run.
type run struct {
	Config

	client   *http.Client
	trap     trap
	process  *process.Process
	report   *Report
	unit     int64           // effects of one request
	usual    answer          // of the first request
	isStored bool            // a retry gets the bytes of the first answer
	counted  int64           // number of effects at the last count
	last     point           // of the last kill
	took     []time.Duration // durations of requests without a kill
}

// Run runs the command, and ends it. It fails if no statement is possible.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{Config: cfg, client: newClient(cfg.Request.URL.Hostname()), report: &Report{Request: cfg.Request.Place(), Kills: []Kill{}, Findings: []*Finding{}}}
	defer func() {
		if r.process != nil {
			r.process.Kill()
		}
	}()
	defer cancel()
	for _, p := range cfg.Proxies {
		wait, err := p.serve(ctx, &r.trap)
		if err != nil {
			return nil, err
		}
		defer func() { cancel(); wait() }()
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	if isOver, err := r.learn(ctx); err != nil || isOver {
		return r.report, err
	}
	if len(cfg.Proxies) > 0 {
		err = r.eachPacket(ctx)
	} else {
		err = r.byTheClock(ctx)
	}
	if err != nil {
		return nil, err
	}
	_, err = r.count(ctx)
	return r.report, err
}

// learn sends a request, and repeats it, to learn the right behaviour without a kill.
func (r *run) learn(ctx context.Context) (isOver bool, err error) {
	start, err := r.first(ctx)
	if err != nil {
		return false, err
	}
	key := newKey()
	if r.usual, err = r.send(ctx, key); err != nil {
		return false, err
	}
	if r.usual.status < 200 || r.usual.status > 299 {
		return false, fmt.Errorf("without a kill, the request gets the answer %v%s. Try: start the command yourself, and send the same request", r.usual, r.said())
	}
	once, err := r.Effects(ctx)
	if err != nil {
		return false, err
	}
	if r.unit = once - start; r.unit <= 0 {
		return false, errors.New("the request got an answer, but the number of --effects did not increase. Try: use --effects with the number of rows that the request creates")
	}
	again, err := r.send(ctx, key)
	if err != nil {
		return false, err
	}
	if r.counted, err = r.Effects(ctx); err != nil {
		return false, err
	}
	r.isStored = r.usual.equal(again, true)
	effects := r.counted - start
	switch {
	case effects > r.unit:
		r.find(double, point{}, fmt.Sprintf("the API executes a retry: the request had %d effects, and not %d", effects, r.unit))
	case again.status != r.usual.status:
		r.find(different, point{}, fmt.Sprintf("a retry gets %v, and not %v", again, r.usual))
	case !r.isStored:
		r.find(different, point{}, "the bytes of the answer to a retry differ from the first answer")
	}
	// A kill proves nothing about a service that does not even keep a key while it runs.
	return effects > r.unit || r.usual.status != again.status, nil
}

// longestFirst is how long the first count may be repeated.
const longestFirst = 3 * time.Second

// first counts the effects before the first request. A command may listen before it has made its tables.
func (r *run) first(ctx context.Context) (n int64, err error) {
	for end := time.Now().Add(longestFirst); ; {
		if n, err = r.Effects(ctx); err == nil || time.Now().After(end) {
			return n, err
		}
		if err := r.pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// eachPacket kills the service at each packet of a request, one kill for each request, until a request has no further packet.
func (r *run) eachPacket(ctx context.Context) error {
	for n := 1; ; n++ {
		isStruck := false
		for _, k := range []kind{before, after} {
			if len(r.report.Kills) >= r.Kills {
				return nil
			}
			s, err := r.round(ctx, point{kind: k, n: n})
			if err != nil {
				return err
			}
			isStruck = isStruck || s
		}
		if !isStruck {
			r.report.Complete = true
			return nil
		}
	}
}

// byTheClock kills at times that are as far from each other as possible, for any number of kills.
func (r *run) byTheClock(ctx context.Context) error {
	for i := 0; i < 3*r.Kills && len(r.report.Kills) < r.Kills; i++ {
		p := point{}
		if len(r.took) >= 3 { // before that, the duration of a request is not known
			slices.Sort(r.took)
			_, part := math.Modf(float64(i) / math.Phi)
			p = point{kind: clock, at: time.Duration(part * 1.5 * float64(r.took[len(r.took)/2]))}
		}
		if _, err := r.round(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// count returns the number of effects. New effects since the last count belong to the previous key.
func (r *run) count(ctx context.Context) (int64, error) {
	n, err := r.Effects(ctx)
	if err != nil {
		return 0, err
	}
	if n > r.counted {
		r.find(double, r.last, fmt.Sprintf("after the last answer, the number of effects changed from %d to %d", r.counted, n))
	}
	return n, nil
}

// round sends a request with a key of its own, kills, starts again, retries and judges.
func (r *run) round(ctx context.Context, p point) (isStruck bool, err error) {
	start, err := r.count(ctx)
	if err != nil {
		return false, err
	}
	key, begun := newKey(), time.Now()
	r.trap.arm(p, r.process.Kill)
	var s seen
	s.first, err = r.send(ctx, key)
	took := time.Since(begun)
	isStruck = r.trap.disarm()
	switch {
	case err != nil:
		return false, err
	case isStruck:
		if err := r.start(ctx); err != nil {
			return false, err
		}
	default:
		p = point{}
		r.took = append(r.took, took)
	}
	if s.final, s.isAnswered, err = r.retry(ctx, key); err != nil {
		return false, err
	}
	if s.isAnswered {
		if s.again, err = r.send(ctx, key); err != nil {
			return false, err
		}
	}
	if r.counted, err = r.Effects(ctx); err != nil {
		return false, err
	}
	r.last, s.effects = p, r.counted-start
	c, says := r.judge(s)
	outcome := "ok"
	if c != nil {
		outcome = c.name
		r.find(c, p, says)
	}
	if isStruck {
		isHit := s.first.status == 0
		if isHit {
			r.report.Hits++
		}
		r.report.Kills = append(r.report.Kills, Kill{Point: p.String(), Hit: isHit, Outcome: outcome})
	}
	return isStruck, nil
}

const longestStart = time.Minute

// start starts the command, and waits until its address can be reached.
func (r *run) start(ctx context.Context) (err error) {
	if r.isReached(ctx) {
		if r.process == nil {
			return fmt.Errorf("another process listens at %s, and the test cannot kill that process. Try: end that process, or use {port} in the command and another port", r.Request.URL.Host)
		}
		return fmt.Errorf("after the command was killed, another process still answers at %s. Try: use the command whose own process serves the requests (docker run, for example, starts another process)", r.Request.URL.Host)
	}
	if r.process, err = process.Start(ctx, r.Command); err != nil {
		return err
	}
	for end := time.Now().Add(longestStart); !r.isReached(ctx); {
		if time.Now().After(end) {
			return fmt.Errorf("the server that the command starts does not listen at %s%s. Try: use {port} in the command, or write the port of this server into the request", r.Request.URL.Host, r.said())
		}
		if err := r.pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) isReached(ctx context.Context) bool {
	host, port := r.Request.URL.Hostname(), r.Request.URL.Port()
	if port == "" {
		port = r.Request.URL.Scheme // net accepts it as the name of a port
	}
	conn, err := probe.Dialer(host).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// pause waits for d. It fails when the command ends.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.process.Ended():
		if ctx.Err() != nil { // the command ends with ctx
			return ctx.Err()
		}
		return fmt.Errorf("the command has ended by itself%s. Try: run the same command in a shell", r.said())
	}
}

// said returns the end of the output of the command.
func (r *run) said() string {
	if text := r.process.Said(); text != "" {
		return ": " + text
	}
	return ""
}
