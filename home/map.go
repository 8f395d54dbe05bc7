package home

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Pin is where a tenant lives.
type Pin struct {
	Region string `json:"region"`
	Epoch  int64  `json:"epoch"` // of the ownership; 0: the hash has chosen the region, and no move
}

// Map says where tenants live, as far as this process knows. Its methods can be called concurrently.
type Map struct {
	regions []string

	mu   sync.RWMutex
	pins map[string]Pin
}

// NewMap returns the map of these regions, without pins. It panics if one is empty or there twice.
func NewMap(regions ...string) *Map {
	regions = slices.Sorted(slices.Values(regions))
	if len(regions) == 0 || slices.Contains(regions, "") || len(slices.Compact(slices.Clone(regions))) < len(regions) {
		panic(fmt.Sprintf("home: NewMap: %q is not a list of different regions", regions))
	}
	return &Map{regions: regions, pins: map[string]Pin{}}
}

// Home returns where a tenant lives: where it is pinned, or the region with the highest hash of region and tenant (rendezvous
// hashing), so that a new region takes over only its own share of the tenants without a pin.
func (m *Map) Home(tenant string) Pin {
	m.mu.RLock()
	p, is := m.pins[tenant]
	m.mu.RUnlock()
	if is {
		return p
	}
	var highest uint64
	for _, r := range m.regions {
		sum := sha256.Sum256([]byte(r + "\x00" + tenant))
		if h := binary.BigEndian.Uint64(sum[:]); h >= highest {
			highest, p.Region = h, r
		}
	}
	return p
}

// Pin notes where a tenant lives, unless a later move is known: pins may arrive late and in any order. It reports whether p was news.
func (m *Map) Pin(tenant string, p Pin) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.Epoch <= m.pins[tenant].Epoch {
		return false
	}
	m.pins[tenant] = p
	return true
}

// ReadFile notes the pins of a file that "once home move --pins" has written.
func (m *Map) ReadFile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	pins := map[string]Pin{}
	if err := json.Unmarshal(text, &pins); err != nil {
		return fmt.Errorf("home: %s: %w", name, err)
	}
	for tenant, p := range pins {
		m.Pin(tenant, p)
	}
	return nil
}
