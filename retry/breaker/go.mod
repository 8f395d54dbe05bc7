module github.com/oncelib/once/retry/breaker

go 1.25.0

require (
	github.com/oncelib/once v0.0.0
	github.com/sony/gobreaker/v2 v2.4.0
)

replace github.com/oncelib/once => ../..
