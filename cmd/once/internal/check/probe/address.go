package probe

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// isLoopback reports whether a host can only be this machine. Other names may resolve to anything.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Allow refuses a host that is not loopback, unless it is in owned.
func Allow(host string, owned []string) error {
	if isLoopback(host) || slices.ContainsFunc(owned, func(o string) bool { return strings.EqualFold(o, host) }) {
		return nil
	}
	return fmt.Errorf("%s is another machine, and requests would take effect on that machine, so the command has sent no request. Try: --i-own-this %s if that machine is your own test system", host, host)
}

// onlyLoopback checks the address to which a name has resolved, before a packet is sent.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !isLoopback(host) {
		return fmt.Errorf("the address %s is not on this machine. Try: 127.0.0.1 in the URL", host)
	}
	return nil
}

// Dialer returns a dialer that connects to an allowed host. If this host is the local machine, the dialer connects to loopback addresses only.
func Dialer(host string) *net.Dialer {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if isLoopback(host) {
		d.Control = onlyLoopback
	}
	return d
}
