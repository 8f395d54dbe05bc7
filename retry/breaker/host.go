package breaker

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/base/hostname"
	"github.com/oncelib/once/retry"
)

// maxHosts is the largest number of hosts whose breakers are kept.
const maxHosts = 10_000

// ByHost returns a function for the field Breaker of retryhttp.Transport. Each host gets its own breaker with the given settings; the name of the
// breaker is the host. At most 10,000 hosts have a breaker at the same time. When 10,000 hosts have a breaker, the breaker of each new host
// replaces the breaker of another host. If the breaker of a host was replaced, the next request to this host makes a new breaker.
func ByHost(settings gobreaker.Settings) func(host string) retry.Breaker {
	return NewHosts(settings).Of
}

// Hosts makes a breaker for each host, as the function [ByHost] does. Hosts is also a [gauge.Source] that reports which
// breakers are open:
//
//	hosts := breaker.NewHosts(gobreaker.Settings{})
//	client := &http.Client{Transport: &retryhttp.Transport{Breaker: hosts.Of}}
//	watch := gauge.NewWatch(gauge.Config{}, hosts)
type Hosts struct {
	settings gobreaker.Settings

	mu  sync.Mutex
	all map[string]*Breaker
}

// NewHosts returns a Hosts that makes one breaker for each host. Each breaker has the given settings.
func NewHosts(settings gobreaker.Settings) *Hosts {
	return &Hosts{settings: settings, all: map[string]*Breaker{}}
}

// Gauges implements [gauge.Source]. Gauges returns one gauge for each breaker: 1 if the breaker is open or half-open, 0 if the
// breaker is closed.
func (h *Hosts) Gauges(context.Context) ([]gauge.Value, error) {
	// State may call the program's OnStateChange, which must not run under this lock.
	h.mu.Lock()
	all := maps.Clone(h.all)
	h.mu.Unlock()
	values := make([]gauge.Value, 0, len(all))
	for host, b := range all {
		open := 0.0
		if b.State() != gobreaker.StateClosed {
			open = 1
		}
		values = append(values, gauge.Value{Name: gaugename.BreakerOpen, Label: host, Number: open})
	}
	return values, nil
}

// Of returns the breaker of a host. If the host has no breaker, Of makes a new breaker. If [retry.BudgetFor] treats two spellings of a host as
// one destination, the two spellings have the same breaker.
func (h *Hosts) Of(host string) retry.Breaker {
	host = hostname.Canonical(host)
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.all[host]; b != nil {
		return b
	}
	// Any host is good enough: a host that is used again gets a new breaker.
	if len(h.all) >= maxHosts {
		for other := range h.all {
			delete(h.all, other)
			break
		}
	}
	settings := h.settings
	host = strings.Clone(host) // a copy, so that the memory of the whole URL can be freed
	settings.Name = host
	b := New(settings)
	h.all[host] = b
	return b
}
