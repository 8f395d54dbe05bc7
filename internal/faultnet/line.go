package faultnet

import (
	"bytes"
	"time"
)

// ending says how a direction ended.
type ending int

const (
	goesOn   ending = iota
	finished        // the peer has said all it had to say
	broken          // the peer is gone
	severed         // a fault cut it
)

// line carries one direction with a delay: bytes that are read at t are delivered at
// t + delay, in order. Reading goes on meanwhile, so that a delay costs no
// throughput.
type line struct {
	delay, spin time.Duration
	deliver     func([]byte, ending) // runs in one goroutine at a time
	parcels     chan parcel          // nil without a delay
	gone        <-chan struct{}      // closed when the connection is
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

// send takes over data until it returns.
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

// run delivers until the connection is gone.
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

// waitFor waits precisely, and burns the last spin of the time if asked to. It
// reports whether the connection is still there.
func (l *line) waitFor(due time.Time) bool {
	// A nap cannot be interrupted, so only the last stretch is one.
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
