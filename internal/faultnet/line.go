package faultnet

import (
	"bytes"
	"time"
)

// ending says how a direction ended.
type ending int

const (
	goesOn   ending = iota
	finished        // the peer has sent all that it had to send
	broken          // the peer is gone
	severed         // a fault has cut the direction
)

// line carries the bytes of one direction with a delay. Bytes that are read at t are delivered at t + delay, in
// order. The line reads on meanwhile, so a delay does not lower the throughput.
type line struct {
	delay, spin time.Duration
	deliver     func([]byte, ending) // runs in one goroutine at a time
	parcels     chan parcel          // nil if there is no delay
	gone        <-chan struct{}      // closed when the connection is gone
}

type parcel struct {
	data []byte
	due  time.Time
	end  ending
}

func newLine(delay, spin time.Duration, gone <-chan struct{}, deliver func([]byte, ending)) *line {
	const onTheWay = 1024
	l := &line{delay: delay, spin: spin, deliver: deliver, gone: gone}
	if delay > 0 {
		l.parcels = make(chan parcel, onTheWay)
	}
	return l
}

// send sends data, which the caller may change after send has returned.
func (l *line) send(data []byte, end ending) {
	if l.parcels == nil {
		l.deliver(data, end)
		return
	}
	select {
	case l.parcels <- parcel{data: bytes.Clone(data), due: time.Now().Add(l.delay), end: end}:
	case <-l.gone:
	}
}

// run delivers the parcels until the connection is gone.
func (l *line) run() {
	if l.parcels == nil {
		return
	}
	for {
		select {
		case p := <-l.parcels:
			if !l.waitFor(p.due) {
				return
			}
			l.deliver(p.data, p.end)
		case <-l.gone:
			return
		}
	}
}

// waitFor waits until due, and spins for the last part of the time if l.spin is set. It returns false if the
// connection is gone.
func (l *line) waitFor(due time.Time) bool {
	// A nap cannot be interrupted, so it is used for the last stretch only.
	const stretch = 5 * time.Millisecond
	if rest := time.Until(due); rest > stretch {
		timer := time.NewTimer(rest - stretch)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.gone:
			return false
		}
	}
	for {
		rest := time.Until(due) - l.spin
		if rest <= 0 {
			break
		}
		nap(rest)
	}
	for l.spin > 0 && time.Now().Before(due) {
	}
	return true
}
