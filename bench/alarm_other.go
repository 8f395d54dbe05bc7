//go:build !linux

package main

import "time"

// alarm is a timer of the runtime's: if nothing else keeps the runtime awake it is right
// to the millisecond.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) wait(d time.Duration) error {
	<-time.After(d)
	return nil
}

func (*alarm) Close() error { return nil }
