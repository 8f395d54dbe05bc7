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

// Hosts that are remembered, at most.
const maxHosts = 10_000

// ByHost returns a function for Breaker of retryhttp.Transport: each host has a breaker of its own, with these settings and the host as its name. It
// remembers 10,000 hosts; after that each new host replaces another one, which gets a new breaker when it is used again.
func ByHost(settings gobreaker.Settings) func(host string) retry.Breaker {
	return NewHosts(settings).Of
}

// Hosts are the breakers of [ByHost], and a [gauge.Source] that shows which of them are open:
//
//	hosts := breaker.NewHosts(gobreaker.Settings{})
//	client := &http.Client{Transport: &retryhttp.Transport{Breaker: hosts.Of}}
//	watch := gauge.NewWatch(gauge.Config{}, hosts)
type Hosts struct {
	settings gobreaker.Settings

	mu  sync.Mutex
	all map[string]*Breaker
}

// NewHosts returns breakers with these settings, one for each host.
func NewHosts(settings gobreaker.Settings) *Hosts {
	return &Hosts{settings: settings, all: map[string]*Breaker{}}
}

// Gauges implements [gauge.Source]: the breakers that are open or half-open.
func (h *Hosts) Gauges(context.Context) ([]gauge.Value, error) {
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

// Of returns the breaker of a host. Two spellings that are one host for [retry.BudgetFor] have the same breaker, and the same name.
func (h *Hosts) Of(host string) retry.Breaker {
	host = hostname.Canonical(host)
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.all[host]; b != nil {
		return b
	}
	if len(h.all) >= maxHosts {
		for other := range h.all {
			delete(h.all, other)
			break
		}
	}
	settings := h.settings
	host = strings.Clone(host) // a copy, so that the whole URL can be freed
	settings.Name = host
	b := New(settings)
	h.all[host] = b
	return b
}
