module github.com/oncelib/once/limit/adaptive

go 1.25.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/oncelib/once v0.0.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
)

replace github.com/oncelib/once => ../..
