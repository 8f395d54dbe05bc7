//go:build !linux

package faultnet

import "time"

// nap sleeps with the precision of the timers of the Go runtime.
func nap(d time.Duration) { time.Sleep(d) }
