package probe

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// isLoopback reports whether a host can only be this machine. Other names may resolve to anything.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Allow refuses an address that is not loopback, unless its host is in owned.
func Allow(u *url.URL, owned []string) error {
	host := u.Hostname()
	if isLoopback(host) || slices.ContainsFunc(owned, func(o string) bool { return strings.EqualFold(o, host) }) {
		return nil
	}
	return fmt.Errorf("%s is not this machine, and requests would take effect there; nothing was sent. Try: --i-own-this %s, if it is a test system of yours", host, host)
}

// onlyLoopback is asked with the address that a name has resolved to, before a packet is sent.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !isLoopback(host) {
		return fmt.Errorf("%s is not this machine. Try: 127.0.0.1 in the URL", host)
	}
	return nil
}
