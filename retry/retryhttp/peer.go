package retryhttp

import (
	"net/http"
	"strings"
	"sync"

	"github.com/oncelib/once/internal/base/wire"
)

// peers has the hosts that have answered this process with Idempotency-Status. They understand Once-Attempt and X-Request-Timeout. Other hosts do not
// get these headers, so that they do not learn how often and how long this client tries.
var peers peerSet

// peerSet is a set of at most maxPeers hosts. A new host replaces another one if the set is full.
type peerSet struct {
	mu    sync.RWMutex
	hosts map[string]struct{}
}

const maxPeers = 10_000

func (p *peerSet) has(host string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.hosts[host]
	return ok
}

func (p *peerSet) add(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil {
		p.hosts = make(map[string]struct{})
	}
	for other := range p.hosts {
		if len(p.hosts) < maxPeers {
			break
		}
		delete(p.hosts, other)
	}
	p.hosts[strings.Clone(host)] = struct{}{}
}

// announces reports whether attempts send the headers Once-Attempt and X-Request-Timeout.
func (c *call) announces() bool { return c.t.Dialect.Announce || peers.has(c.host) }

// meet records whether the server of an answer understands these headers.
func (c *call) meet(h http.Header) {
	// A read is enough for a known host, which is the usual case.
	if field(h, wire.StatusHeader) != "" && !peers.has(c.host) {
		peers.add(c.host)
	}
}
