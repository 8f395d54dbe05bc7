package killstorm

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Instruments compares the metrics of the service with the database. A killed process loses the counts since its last scrape, which is just before
// the kill. Its JSON form is a contract with scripts.
type Instruments struct {
	Executed    int `json:"executed"`     // refunds, by all processes
	Last        int `json:"last"`         // refunds by the last process, which runs until all are done
	LastEffects int `json:"last_effects"` // refunds in the database since the last process was started
	Unread      int `json:"unread"`       // refunds in the database that a killed process has not counted in a scrape
	UnderWay    int `json:"under_way"`    // upper bound of Unread: refunds that were running during the last scrape
	Replayed    int `json:"replayed"`     // refunds that were requested once more after the storm
	Again       int `json:"run_again"`    // refunds that were executed, although they were only requested again after the storm
}

// instruments reads the metrics of the service during a storm. It is nil if they are not compared.
type instruments struct {
	address string // of /metrics

	mu      sync.Mutex
	sum     Instruments
	started int // orders that were begun
	effects int // refunds in the database when the last process was killed
	reasons []string
}

// counted is what the running process has counted since its start.
type counted struct{ executed, replayed int }

// begin notes that an order is requested from now on.
func (i *instruments) begin() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.started++
}

// kill reads the metrics of the service, and then kills it.
func (s *Storm) kill(ctx context.Context) error {
	if s.instruments == nil {
		return s.Server.kill()
	}
	finished := s.tally.counts().finished
	c, err := s.instruments.read(ctx)
	if err != nil {
		return err
	}
	if err := s.Server.kill(); err != nil {
		return err
	}
	effects, err := s.Witness.effects(ctx, s.Tenant)
	if err != nil {
		return err
	}
	i := s.instruments
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := effects - i.effects; c.executed > n {
		i.reasons = append(i.reasons, fmt.Sprintf("the metrics of a process count %d refunds, but the database has %d", c.executed, n))
	}
	i.effects = effects
	i.sum.Executed += c.executed
	i.sum.UnderWay += i.started - finished
	return nil
}

// replayAll requests every answered order once more. No process is killed meanwhile, so the instruments must have counted exactly these requests.
func (s *Storm) replayAll(ctx context.Context) error {
	before, err := s.instruments.read(ctx)
	if err != nil {
		return err
	}
	s.each(ctx, func(o *order) { s.replay(ctx, o) })
	after, err := s.instruments.read(ctx)
	if err != nil || s.instruments == nil {
		return err
	}
	sum := &s.instruments.sum
	sum.Executed += after.executed
	sum.Last = after.executed
	sum.Again = after.executed - before.executed
	sum.Replayed = after.replayed - before.replayed
	return nil
}

// read reads the counts of refunds from the metrics.
func (i *instruments) read(ctx context.Context) (c counted, err error) {
	if i == nil {
		return c, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.address+"/metrics", http.NoBody)
	if err != nil {
		return c, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, fmt.Errorf("the metrics of the service cannot be read: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, number, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(series, "once_operations_total{") || !strings.Contains(series, `effect="applied"`) || !strings.Contains(series, `operation="POST `+refundsPath+`"`) {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return c, fmt.Errorf("the metrics of the service have an unexpected line %q: %w", lines.Text(), err)
		}
		switch {
		case strings.Contains(series, `decision="new_execution"`), strings.Contains(series, `decision="conflict_retry"`):
			c.executed += int(n)
		case strings.Contains(series, `decision="db_hit"`), strings.Contains(series, `decision="cache_hit"`):
			c.replayed += int(n)
		}
	}
	return c, lines.Err()
}

// compare compares the counts with the database and with the requests of the clients.
func (r *Report) compare(i *instruments) {
	if i == nil {
		return
	}
	sum := i.sum
	r.Instruments = &sum
	sum.Unread, sum.LastEffects = r.Effects-sum.Executed, r.Effects-i.effects
	// A replay can finish an order before the request that has executed it is counted. If the answer to that request is then lost, its client
	// counts it as broken or abandoned.
	most := sum.UnderWay + r.Broken + r.Abandoned
	fail := func(wrong bool, sentence string, args ...any) {
		if wrong {
			i.reasons = append(i.reasons, fmt.Sprintf(sentence, args...))
		}
	}
	fail(sum.Last != sum.LastEffects, "the metrics of the last process count %d refunds, but the database has %d", sum.Last, sum.LastEffects)
	fail(sum.Unread > most, "the metrics have missed %d refunds, but at most %d were running when a process was killed", sum.Unread, most)
	fail(sum.Again != 0, "%d refunds were executed a second time when they were asked for again", sum.Again)
	fail(sum.Replayed < r.Operations || sum.Replayed > r.Operations+r.Abandoned, "the metrics count %d replays, but %d refunds were asked for again", sum.Replayed, r.Operations)
	for _, reason := range i.reasons {
		r.Reasons = append(r.Reasons, "instruments: "+reason)
	}
}
