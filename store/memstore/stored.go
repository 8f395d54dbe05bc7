package memstore

import (
	"context"
	"slices"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

var _ upkeep.Measurer = (*Store)(nil)

// Stored implements [upkeep.Measurer].
func (s *Store) Stored(ctx context.Context, after store.ID, limit int) (list []upkeep.Stored, next store.ID, err error) {
	if err := ctx.Err(); err != nil {
		return nil, next, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var read []store.ID
	for id := range s.rows {
		if compare(id, after) > 0 {
			read = append(read, id)
		}
	}
	slices.SortFunc(read, compare)
	if limit = max(0, limit); len(read) > limit {
		read = read[:limit]
	}
	for _, id := range read {
		if len(list) == 0 || list[len(list)-1].Scope != id.Scope {
			list = append(list, upkeep.Stored{Scope: id.Scope})
		}
		// An expired row still counts towards the page, but not towards the size.
		if r := s.rows[id]; !r.expired(s.now()) {
			list[len(list)-1].Bytes += r.size()
		}
	}
	if len(read) == limit && limit > 0 {
		next = read[limit-1]
	}
	return list, next, nil
}

// size returns how many bytes a row takes, measured as an SQL store measures it.
func (r *row) size() int64 {
	n := upkeep.RecordSize + len(r.rec.Result.Body) + len(r.rec.Request) + len(r.rec.Data)
	for _, f := range r.rec.Result.Header {
		n += len(f.Name) + len(f.Value) + len(": \n")
	}
	return int64(n)
}
