package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

const loopback = "127.0.0.1"

// freePort returns a port on which no process listens, below the range from which the kernel takes the source ports of
// outgoing connections. A server that is down for a moment must get its port back. And a client that dials a dead port
// in that range may be connected to itself.
func freePort() (int, error) {
	const lowest = 10_000
	highest := firstEphemeralPort()
	if highest <= lowest {
		return 0, fmt.Errorf("testenv: outgoing connections take their ports from %d up, which leaves none for servers."+
			" Try: sysctl net.ipv4.ip_local_port_range='32768 60999'", highest)
	}
	var failure error
	for range 100 {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", address(port)) //nolint:noctx // a local bind does not block
		if err != nil {
			failure = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, errors.Join(errors.New("testenv: found no free port"), failure)
}

func firstEphemeralPort() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return usual
	}
	first, err := strconv.Atoi(fields[0])
	if err != nil {
		return usual
	}
	return first
}

func address(port int) string {
	return net.JoinHostPort(loopback, strconv.Itoa(port))
}
