package once

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// Gauges implements [gauge.Source]. Gauges returns the hits, misses and bytes of Config.Cache, and
// the hits, misses, skipped look-ups and errors of Config.Shared. If the engine has no cache,
// Gauges returns no values.
func (e *Engine[TX]) Gauges(context.Context) (values []gauge.Value, _ error) {
	if e.cache != nil {
		u := e.cache.Usage()
		values = append(values,
			gauge.Value{Name: gaugename.CacheHits, Number: float64(u.Hits)},
			gauge.Value{Name: gaugename.CacheMisses, Number: float64(u.Misses)},
			gauge.Value{Name: gaugename.CacheBytes, Number: float64(u.Bytes)})
	}
	if s := e.shared; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		values = append(values,
			gauge.Value{Name: gaugename.SharedCacheHits, Number: float64(s.hits)},
			gauge.Value{Name: gaugename.SharedCacheMisses, Number: float64(s.misses)},
			gauge.Value{Name: gaugename.SharedCacheSkipped, Number: float64(s.skipped)},
			gauge.Value{Name: gaugename.SharedCacheErrors, Number: float64(s.errors)})
	}
	return values, nil
}
