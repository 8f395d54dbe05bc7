package home

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Pin names the home of a tenant: the region that executes the tenant's operations.
type Pin struct {
	Region string `json:"region"`
	Epoch  int64  `json:"epoch"` // a number that grows with every move of the tenant; 0 if the hash has chosen the region, and the tenant was never moved
}

// Map has the homes of tenants (the region of each tenant), as far as this process knows the homes. The methods of Map can be called concurrently.
type Map struct {
	regions []string

	mu   sync.RWMutex
	pins map[string]Pin
	read func(ctx context.Context, tenant string) Pin // adds the home in the database of this region; nil without a Store
}

// NewMap returns a map of the given regions, without pins (fixed regions of tenants). NewMap panics if the name of a region is empty or occurs
// twice.
func NewMap(regions ...string) *Map {
	regions = slices.Sorted(slices.Values(regions))
	if len(regions) == 0 || slices.Contains(regions, "") || len(slices.Compact(slices.Clone(regions))) < len(regions) {
		panic(fmt.Sprintf("home: NewMap: the list of regions %q is empty, or contains an empty or duplicate name", regions))
	}
	return &Map{regions: regions, pins: map[string]Pin{}}
}

// Home returns the home of a tenant: the pin of the tenant, or, if the map has no pin of the tenant, the region
// with the highest hash of region and tenant (rendezvous hashing). If a region is added to the map, some tenants
// without a pin get the new region as their home, and all other tenants keep their homes.
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

// Pin stores p as the home of a tenant, unless the map has a pin of the tenant with a higher epoch. So Pin may be called with pins that are old,
// and in any order. Pin reports whether the map has changed.
func (m *Map) Pin(tenant string, p Pin) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A later move has the higher epoch, and pins may arrive in any order.
	if p.Epoch <= m.pins[tenant].Epoch {
		return false
	}
	m.pins[tenant] = p
	return true
}

// ask returns the home of a tenant like [Map.Home], after it has read the home in the database of this region.
func (m *Map) ask(ctx context.Context, tenant string) Pin {
	m.mu.RLock()
	read := m.read
	m.mu.RUnlock()
	if read != nil {
		read(ctx, tenant)
	}
	return m.Home(tenant)
}

// ReadFile reads a file that the command "once home move --pins" has written, and stores the pins of the file in
// the map.
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
