package redisstore_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fault is what becomes of a command.
type fault int

const (
	none      fault = iota
	cutBefore       // the connection ends, and the server does not get it
	cutAfter        // the server executes it, and its answer is lost
	cutAnswer       // half of the answer arrives
	later           // the connection ends, and the server gets it when the proxy is told so
	refused         // the server answers that it is loading
)

// proxy forwards commands to a server, one after the other, and counts those that are no greeting.
type proxy struct {
	tb       testing.TB
	listener net.Listener
	server   string

	busy atomic.Int64 // the commands that the server may still execute

	mu     sync.Mutex
	fault  func(command string) fault
	counts map[string]int
	late   [][]byte
	all    sync.WaitGroup
	open   map[net.Conn]bool
}

func newProxy(tb testing.TB, server string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{tb: tb, listener: l, server: server, counts: map[string]int{}, open: map[net.Conn]bool{}}
	p.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.keep(conn)
			p.all.Go(func() { p.serve(conn) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for conn := range p.open {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) keep(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[conn] = true
}

// setFault has each command judged. nil: none fails.
func (p *proxy) setFault(fault func(command string) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// taken returns how many commands of each name there were since the last time.
func (p *proxy) taken() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts
	p.counts = map[string]int{}
	return counts
}

// release lets the server have what was on its way.
func (p *proxy) release() {
	p.mu.Lock()
	late := p.late
	p.late = nil
	p.mu.Unlock()
	if len(late) == 0 {
		return
	}
	conn, err := net.Dial("tcp", p.server)
	if err != nil {
		p.tb.Error(err)
		return
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, command := range late {
		if _, err := conn.Write(command); err != nil {
			p.tb.Error(err)
		}
		if _, err := reply(answers); err != nil {
			p.tb.Error(err)
		}
	}
}

func (p *proxy) judge(command string) fault {
	p.mu.Lock()
	judge := p.fault
	greets := command == "hello" || command == "client"
	if !greets {
		p.counts[command]++
	}
	p.mu.Unlock()
	if judge == nil || greets {
		return none
	}
	return judge(command)
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	p.keep(server)
	defer server.Close()
	commands, answers := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, err := reply(commands) // it is a list of texts
		if err != nil {
			return
		}
		if !p.pass(command, client, server, answers) {
			return
		}
	}
}

// pass judges a command, and has the server execute it. It reports whether the connection goes on.
func (p *proxy) pass(command []byte, client, server net.Conn, answers *bufio.Reader) bool {
	p.busy.Add(1)
	defer p.busy.Add(-1)
	f := p.judge(nameOf(command))
	switch f {
	case cutBefore:
		return false
	case later:
		p.mu.Lock()
		p.late = append(p.late, command)
		p.mu.Unlock()
		return false
	case refused:
		_, err := io.WriteString(client, "-LOADING Redis is loading the dataset in memory\r\n")
		return err == nil
	case none, cutAfter, cutAnswer:
	}
	if _, err := server.Write(command); err != nil {
		return false
	}
	answer, err := reply(answers)
	if err != nil || f == cutAfter {
		return false
	}
	if f == cutAnswer {
		answer = answer[:len(answer)/2]
	}
	_, err = client.Write(answer)
	return err == nil && f != cutAnswer
}

// nameOf returns the name of a command.
func nameOf(command []byte) string {
	parts := bytes.SplitN(command, []byte("\r\n"), 4)
	return strings.ToLower(string(parts[2]))
}

// reply reads a whole value of the protocol.
func reply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return line, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch line[0] {
	case '$', '=', '!':
		if n >= 0 {
			text := make([]byte, n+2)
			_, err = io.ReadFull(r, text)
			line = append(line, text...)
		}
		return line, err
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	case '+', '-', ':', '_', '#', ',', '(':
		return line, nil
	default:
		return nil, fmt.Errorf("not of the protocol: %q", line)
	}
	for range n {
		var part []byte
		if part, err = reply(r); err != nil {
			return nil, err
		}
		line = append(line, part...)
	}
	return line, nil
}
