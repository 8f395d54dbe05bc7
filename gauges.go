package once

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// Gauges implements [gauge.Source]: how well Config.Cache does. Without a cache there is nothing to tell.
func (e *Engine[TX]) Gauges(context.Context) ([]gauge.Value, error) {
	if e.cache == nil {
		return nil, nil
	}
	u := e.cache.Usage()
	return []gauge.Value{
		{Name: gaugename.CacheHits, Number: float64(u.Hits)},
		{Name: gaugename.CacheMisses, Number: float64(u.Misses)},
		{Name: gaugename.CacheBytes, Number: float64(u.Bytes)},
	}, nil
}
