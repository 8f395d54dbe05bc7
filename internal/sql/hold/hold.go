package hold

import (
	"cmp"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/store/sqlplane"
)

// Table is the default of Config.Table.
const Table = "once_hold"

// Config of a Holder.
type Config struct {
	Table string        // of the parts; the table of the nodes has _node after this name. Default: once_hold, of package outbox
	Work  string        // such as "outbox"; parts of different works have nothing to do with each other
	Parts int           // 0 to Parts-1, at most 1000; the same in all processes
	TTL   time.Duration // how long after its last renewal a part of this process can be taken over; renewed every third of it
	Node  string        // of this process, for people: random letters are added, so that a restarted process is another node

	// Failed receives each error of the database. Run goes on. Default: errors are dropped.
	Failed func(error)
}

// Part is a part that this process holds. A statement that must not be applied by a former
// holder checks the fence in its own transaction: see [StillHeld].
type Part struct {
	Number int
	Fence  int64 // grows with every holder
}

// Holder holds parts of a work. Its methods can be called concurrently.
type Holder struct {
	cfg  Config
	db   sqlplane.Database
	node string
	wake chan struct{} // a part that is to be released is no longer in use

	mu    sync.Mutex
	held  []heldPart
	until time.Time // by the clock of this process: after it, other processes may hold the parts
	uses  []int     // by number: units of work that use the part

	telling sync.Mutex
	changed func()
	told    []Part // when changed was called
}

type heldPart struct {
	Part

	leaving bool // it is released as soon as it is not in use
}

// New returns a Holder that holds nothing until it runs. The database needs its two tables.
func New(db sqlplane.Database, cfg Config) *Holder {
	const longest = 200 // of a name; the column has room for 255 bytes
	cfg.Table = cmp.Or(cfg.Table, Table)
	name := cfg.Node[:min(len(cfg.Node), longest)]
	return &Holder{
		cfg: cfg, db: db, node: name + "-" + rand.Text()[:8],
		wake: make(chan struct{}, 1), uses: make([]int, cfg.Parts),
	}
}

// Node is the name of this process in the tables.
func (h *Holder) Node() string { return h.node }

// Use returns the parts of parts that this process holds, for one unit of work. They are not released
// to another process before done is called, though they may be taken over if the unit lasts longer than TTL.
func (h *Holder) Use(parts []int) (held []Part, done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.usable() {
		if slices.Contains(parts, p.Number) {
			held = append(held, p)
			h.uses[p.Number]++
		}
	}
	return held, sync.OnceFunc(func() { h.done(held) })
}

// usable are the parts that a unit of work may begin with. h.mu is locked.
func (h *Holder) usable() (parts []Part) {
	if !time.Now().Before(h.until) {
		return nil
	}
	for _, p := range h.held {
		if !p.leaving {
			parts = append(parts, p.Part)
		}
	}
	return parts
}

func (h *Holder) done(used []Part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range used {
		h.uses[p.Number]--
	}
	if len(h.idle()) == 0 {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default: // it is awake
	}
}

// idle returns the parts that can be released now. h.mu is locked.
func (h *Holder) idle() (parts []Part) {
	for _, p := range h.held {
		if p.leaving && h.uses[p.Number] == 0 {
			parts = append(parts, p.Part)
		}
	}
	return parts
}

// inUse reports whether a unit of work has not ended.
func (h *Holder) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.uses, func(n int) bool { return n > 0 })
}

// tell calls changed if the parts have changed since the last call.
func (h *Holder) tell() {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	now := h.usable()
	h.mu.Unlock()
	if slices.Equal(now, h.told) {
		return
	}
	h.told = now
	if h.changed != nil {
		h.changed()
	}
}
