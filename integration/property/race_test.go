//go:build race

package property

const race = true
