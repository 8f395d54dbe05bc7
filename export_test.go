package once

// Defaults of [Config], for tests.
const (
	DefaultRetain   = defaultRetain
	DefaultRuns     = defaultRuns
	DefaultSettle   = defaultSettle
	DefaultAcquire  = defaultAcquire
	DefaultCacheFor = defaultCacheFor
)
