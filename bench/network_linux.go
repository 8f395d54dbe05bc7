package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/oncelib/once/internal/testenv"
)

// network delays what passes through it. It is a process of its own with one thread, and
// goes on to the server through a Unix socket: a real network takes nothing from the runtime
// of the client, and little from the CPUs that client and server share. They, too, would pay
// for one TCP connection only.
type network struct {
	addr    string
	process *exec.Cmd
	alive   io.Closer // the process ends when this is closed
}

// networkCommand is the first argument of the process.
const networkCommand = "network"

func startNetwork(ctx context.Context, pg *testenv.Postgres, delay time.Duration) (*network, error) {
	socket := filepath.Join(pg.SocketDir(), ".s.PGSQL."+strconv.Itoa(pg.Port()))
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, networkCommand, socket, delay.String())
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	n := &network{addr[:max(len(addr)-1, 0)], cmd, alive}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the delaying network did not start: %w", err), n.close())
	}
	return n, nil
}

func (n *network) close() error {
	_ = n.alive.Close() // an error: it has ended already, and Wait says how
	return n.process.Wait()
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", n.addr)
}

// direction is one half of a connection.
type direction struct {
	from, to int
	way      []parcel // on the way, the oldest first
}

type parcel struct {
	due  time.Time
	data []byte // empty: the end
}

// relay forwards what it reads, after a delay.
type relay struct {
	delay time.Duration
	epoll int
	ways  map[int32]*direction // by what they read from
	spare [][]byte             // buffers of parcels that have been delivered
}

// serveNetwork prints its address and forwards until the standard input ends.
func serveNetwork(socket string, delay time.Duration) error {
	upstream := &net.UnixAddr{Name: socket, Net: "unix"}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	accepting, err := descriptor(listener)
	if err != nil {
		return err
	}
	w := &relay{delay: delay, ways: make(map[int32]*direction)}
	if w.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return err
	}
	for _, fd := range []int{syscall.Stdin, accepting} {
		if err := w.watch(fd); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // a collection would wait for the end of wait
	events := make([]syscall.EpollEvent, 64)
	for {
		n, err := wait(w.epoll, events, w.deliver())
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			switch e.Fd {
			case int32(syscall.Stdin):
				return nil
			case int32(accepting):
				err = w.accept(accepting, upstream)
			default:
				err = w.read(w.ways[e.Fd])
			}
			if err != nil {
				return err
			}
		}
	}
}

func (w *relay) watch(fd int) error {
	return syscall.EpollCtl(w.epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
}

func (w *relay) read(d *direction) error {
	var data []byte
	if last := len(w.spare) - 1; last >= 0 {
		data, w.spare = w.spare[last], w.spare[:last]
	} else {
		data = make([]byte, 64<<10)
	}
	n, err := syscall.Read(d.from, data)
	d.way = append(d.way, parcel{time.Now().Add(w.delay), data[:max(n, 0)]})
	if n <= 0 || err != nil {
		return syscall.EpollCtl(w.epoll, syscall.EPOLL_CTL_DEL, d.from, nil)
	}
	return nil
}

// deliver writes what is due and returns how long nothing else is. Sockets of a benchmark's
// few statements are never full.
func (w *relay) deliver() (next time.Duration) {
	next = time.Hour
	now := time.Now()
	for _, d := range w.ways {
		done := 0
		for _, p := range d.way {
			if rest := p.due.Sub(now); rest > 0 {
				next = min(next, rest)
				break
			}
			// An error of either is seen by the reader of that side.
			if len(p.data) == 0 {
				_ = syscall.Shutdown(d.to, syscall.SHUT_WR)
			} else {
				_, _ = syscall.Write(d.to, p.data)
			}
			w.spare = append(w.spare, p.data[:cap(p.data)])
			done++
		}
		d.way = append(d.way[:0], d.way[done:]...)
	}
	return next
}

func (w *relay) accept(listener int, upstream *net.UnixAddr) error {
	client, _, err := syscall.Accept4(listener, syscall.SOCK_CLOEXEC)
	if err != nil {
		return err
	}
	conn, err := net.DialUnix("unix", nil, upstream)
	if err != nil {
		return err
	}
	server, err := descriptor(conn)
	if err != nil {
		return err
	}
	w.ways[int32(client)] = &direction{from: client, to: server}
	w.ways[int32(server)] = &direction{from: server, to: client}
	return errors.Join(syscall.SetsockoptInt(client, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1), w.watch(client), w.watch(server))
}

// descriptor takes a socket away from the runtime.
func descriptor(c interface{ File() (*os.File, error) }) (int, error) {
	f, err := c.File()
	if err != nil {
		return 0, err
	}
	return syscall.Dup(int(f.Fd()))
}

// wait waits until something can be read, and no longer than d, to the microsecond:
// without the slack that the kernel gives to timers, and without the runtime, which
// would wake its watchdog for every call that blocks.
func wait(epoll int, events []syscall.EpollEvent, d time.Duration) (int, error) {
	const (
		setTimerSlack, nanosecond = 29, 1
		epollPwait2               = 441 // on every architecture
	)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, nanosecond, 0)
	timeout := syscall.NsecToTimespec(int64(d))
	n, _, errno := syscall.RawSyscall6(epollPwait2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), //nolint:gosec // ditto
		uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0) //nolint:gosec // ditto
	if errno == syscall.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, fmt.Errorf("epoll_pwait2: %w", errno)
	}
	return int(n), nil
}
