package breaker

import (
	"strings"
	"sync"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once/retry"
)

// Most hosts that are remembered.
const maxHosts = 10_000

// ByHost returns a function for Breaker of retryhttp.Transport: each host has a breaker
// of its own, with these settings and the host as its name. Of 10,000 hosts; then each
// new one replaces another, whose breaker begins anew when it comes back.
func ByHost(settings gobreaker.Settings) func(host string) retry.Breaker {
	h := &hosts{settings: settings, all: map[string]*Breaker{}}
	return h.of
}

type hosts struct {
	settings gobreaker.Settings

	mu  sync.Mutex
	all map[string]*Breaker
}

func (h *hosts) of(host string) retry.Breaker {
	host = strings.ToLower(host)
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
	settings.Name = host
	b := New(settings)
	h.all[host] = b
	return b
}
