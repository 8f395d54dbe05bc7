module github.com/oncelib/once/pgxstore

go 1.25.0

require github.com/oncelib/once v0.0.0

replace github.com/oncelib/once => ..
