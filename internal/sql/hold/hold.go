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

// Config configures a Holder.
type Config struct {
	Table string        // the table of the parts; the table of the nodes has _node after this name. Default: once_hold, of package outbox
	Work  string        // the name of the work, such as "outbox"; parts of different works are independent
	Parts int           // the number of parts, at most 1000, and the same in all processes; the numbers begin at 0
	TTL   time.Duration // how long after its last renewal a part of this process can be taken; it is renewed at a third of TTL
	Node  string        // the name of this process for people; random letters are added, so that a restarted process is another node

	// Failed receives each error of the database. Run continues after an error. Default: errors are ignored.
	Failed func(error)
}

// Part is a part that this process holds. If a statement must not be applied by a former holder, it checks the fence in its
// own transaction: see [StillHeld].
type Part struct {
	Number int
	Fence  int64 // increases with every holder
}

// Holder holds parts of some work. Its methods can be called concurrently.
type Holder struct {
	cfg  Config
	db   sqlplane.Database
	node string
	wake chan struct{} // signals that a part to be released is not in use any more

	mu    sync.Mutex
	held  []heldPart
	until time.Time // by the clock of this process: after this time, other processes may hold the parts
	uses  []int     // by the number of the part: how many units of work use the part

	telling sync.Mutex
	changed func()
	told    []Part // the parts at the last call of changed
}

type heldPart struct {
	Part

	leaving bool // the part is released as soon as it is not in use
}

// New returns a Holder, which holds parts only while Run runs. The database needs the two tables.
func New(db sqlplane.Database, cfg Config) *Holder {
	const longest = 200 // of a name; the column has room for 255 bytes
	cfg.Table = cmp.Or(cfg.Table, Table)
	name := cfg.Node[:min(len(cfg.Node), longest)]
	return &Holder{
		cfg: cfg, db: db, node: name + "-" + rand.Text()[:8],
		wake: make(chan struct{}, 1), uses: make([]int, cfg.Parts),
	}
}

// Node returns the name of this process in the tables.
func (h *Holder) Node() string { return h.node }

// Use returns the given parts that this process holds, for one unit of work. They are not released to another process
// before done is called. But another process may take them if the unit of work takes longer than TTL.
func (h *Holder) Use(parts []int) (held []Part, done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.usable() {
		// After until, another process may have taken the parts, although the table still names this one.
		if slices.Contains(parts, p.Number) {
			held = append(held, p)
			h.uses[p.Number]++
		}
	}
	return held, sync.OnceFunc(func() { h.done(held) })
}

// usable returns the parts with which a unit of work may begin. The caller holds h.mu.
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
	default: // the runner was woken already
	}
}

// idle returns the parts that can be released now. The caller holds h.mu.
func (h *Holder) idle() (parts []Part) {
	for _, p := range h.held {
		if p.leaving && h.uses[p.Number] == 0 {
			parts = append(parts, p.Part)
		}
	}
	return parts
}

// inUse reports whether some unit of work has not ended.
func (h *Holder) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.uses, func(n int) bool { return n > 0 })
}

// tell calls changed if the usable parts have changed since its last call.
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
