//go:build !linux

package faultnet

import "time"

// nap is as precise as the timers of the Go runtime.
func nap(d time.Duration) { time.Sleep(d) }
