module github.com/oncelib/once

go 1.25.0
