package integration

import (
	"encoding/binary"
	"sync"
)

// pipeline follows what a client sends before it has had an answer. A server of which one
// part has failed skips the rest, up to the end: an error in place of a part that is
// skipped would never be met, and what is left out together with it would be missed.
type pipeline struct {
	mu       sync.Mutex
	heard    sync.Cond
	ends     int // that are not answered yet
	asked    int // parts since the last end
	answered int // parts since the last end that was answered
	failed   bool
	over     bool
}

func newPipeline() *pipeline {
	p := &pipeline{ends: 1} // of the login
	p.heard.L = &p.mu
	return p
}

// sends counts a frame on its way to the server.
func (p *pipeline) sends(f frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case f.ends:
		p.asked = 0
		p.ends++
	case f.part:
		p.asked++
	}
}

// follows reports whether anything has been sent that the next frame may fail with.
func (p *pipeline) follows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked > 0
}

// skips waits for the answers to all that was sent, and reports whether the server skips
// what follows. The server must have been told not to keep them to itself.
func (p *pipeline) skips() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && (p.ends > 0 || !p.failed && p.answered < p.asked) {
		p.heard.Wait()
	}
	return p.failed
}

func (p *pipeline) hear(note func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	note()
	p.heard.Broadcast()
}

// reader takes what a server sends apart.
type reader interface {
	read(p *pipeline, data []byte)
}

// postgresReader knows the messages of PostgreSQL.
type postgresReader struct {
	head []byte
	left int // of the body
}

func (r *postgresReader) read(p *pipeline, data []byte) {
	for len(data) > 0 {
		if r.left > 0 {
			n := min(r.left, len(data))
			r.left, data = r.left-n, data[n:]
			continue
		}
		r.head, data = append(r.head, data[0]), data[1:]
		if len(r.head) < 5 {
			continue
		}
		r.left = int(binary.BigEndian.Uint32(r.head[1:])) - 4
		p.hear(func() {
			switch r.head[0] {
			case '1', '2', '3', 'T', 'n', 'C', 'I', 's': // the end of a part
				p.answered++
			case 'E':
				p.failed = true
			case 'Z':
				p.ends, p.answered, p.failed = p.ends-1, 0, false
			}
		})
		r.head = r.head[:0]
	}
}
