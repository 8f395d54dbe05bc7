package dialect

import "github.com/oncelib/once/store/upkeep"

// maxBatch is about how many bytes a sweep with an archive keeps in memory. A batch may exceed it by one row.
const maxBatch = 8 << 20

// Batch is the rows that a sweep has read. Rows without contents have no size.
type Batch struct {
	Rows  []upkeep.Expired
	bytes int
}

// Add adds a row, and reports whether the sweep must not read further rows.
func (b *Batch) Add(e upkeep.Expired) (full bool) {
	b.Rows = append(b.Rows, e)
	b.bytes += len(e.Result.Body) + len(e.Request) + len(e.Data)
	for _, f := range e.Result.Header {
		b.bytes += len(f.Name) + len(f.Value)
	}
	return b.full()
}

func (b *Batch) full() bool { return b.bytes >= maxBatch }

// More reports whether further expired rows may exist after a sweep of at most limit rows.
func (b *Batch) More(limit int) bool { return b.full() || len(b.Rows) >= limit }
