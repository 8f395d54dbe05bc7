package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpu reads how long the client and the server have run. Unlike the clock on the
// wall it does not count what other programs do to the machine.
type cpu struct {
	postmaster int
	others     []int // processes that belong to the server, with all their threads
}

// used is the CPU time of this process and of the server's so far; zero where the
// system does not tell.
func (c cpu) used() (client, server time.Duration) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		client = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	if c.postmaster == 0 {
		return client, 0
	}
	for _, pid := range c.others {
		threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task") // not there: not told
		for _, t := range threads {
			server += ran(strconv.Itoa(pid) + "/task/" + t.Name())
		}
	}
	pid := strconv.Itoa(c.postmaster)
	server += ran(pid)
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children") // not there: not told
	for child := range strings.FieldsSeq(string(children)) {
		server += ran(child)
	}
	return client, server
}

// ran is to the nanosecond, where ps counts ticks of 10 ms.
func ran(pid string) time.Duration {
	b, _ := os.ReadFile("/proc/" + pid + "/schedstat") // not there: not told
	first, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.ParseInt(first, 10, 64)
	return time.Duration(n)
}
