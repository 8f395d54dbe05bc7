// Package ssrf guards an HTTP client whose URLs are chosen by other people, such as the receivers of webhooks.
// The client connects only to public addresses. So the guard prevents server-side request forgery, an attack in
// which a user makes a service send requests into the internal network of the service, for example to the
// metadata service of the cloud, which contains secrets.
//
//	guard := &ssrf.Guard{}
//	err := guard.CheckURL(ctx, url)         // when an endpoint is created: an early error for the user
//	resp, err := guard.Client().Do(request) // when the endpoint is used: the check that protects
//
// The client checks an address after it has resolved the host name and before it connects. So the client also
// refuses a forbidden address that an attacker has entered in the DNS after the call of CheckURL. All IPv4
// addresses are allowed, except the addresses in a list of this package. Only the IPv6 addresses in 2000::/3 are
// allowed, except the addresses in a second list of this package. IPv6 addresses that contain an IPv4 address,
// and addresses with a zone, are refused. Addresses of metadata services are refused, whatever the settings are.
//
// The guard does not know which public addresses belong to you, such as the address of this host. Protect your
// own public addresses with a firewall. With [Guard.Proxy], the proxy resolves the names, so the proxy itself
// must refuse the addresses that a Guard refuses. The text of an error that matches [ErrRefused] contains an
// address that your DNS resolver has returned: do not show this text to a user, and say only that the URL is not
// allowed.
package ssrf

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// ErrRefused matches, by errors.Is, each error with which the guard refuses a URL or an address. If a name
// cannot be resolved, the error does not match ErrRefused.
var ErrRefused = errors.New("ssrf: the URL or address is not allowed")

// Guard says where a client may connect. The zero value allows https to port 443 of public addresses. Set the
// fields of a Guard before its first use.
type Guard struct {
	// AllowPrefixes are addresses that are allowed although they are not public, such as 10.20.0.0/16 for
	// receivers in your own network. If an address is in 64:ff9b::/96 (NAT64), the guard checks the IPv4
	// address that the address contains.
	AllowPrefixes []netip.Prefix

	// AllowPorts are the allowed ports. Default: 443, and also 80 with AllowHTTP.
	AllowPorts []uint16

	// AllowHTTP allows URLs that begin with http://. If a request uses http, every network between the client and
	// the receiver can read the request and the answer.
	AllowHTTP bool

	// Proxy, if it is set, receives all requests. The proxy may have any address. The client does not use the
	// environment variables HTTP_PROXY and HTTPS_PROXY.
	Proxy *url.URL

	// Resolver resolves names. Default: [net.DefaultResolver].
	Resolver *net.Resolver

	// RootCAs are the certificates by which servers are verified. Default: the root certificates of the system.
	RootCAs *x509.CertPool

	// Timeout limits the time of a request, including the time to read its answer. Default 15 s.
	Timeout time.Duration

	// MaxAnswer is how many bytes of the body of an answer can be read; a read beyond MaxAnswer returns an
	// [http.MaxBytesError]. MaxAnswer also limits the size of the headers of an answer. Default 64 kB.
	MaxAnswer int64
}

// Control is a function for [net.Dialer.Control]: it refuses a connection to an address that the guard does not
// allow.
func (g *Guard) Control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return refused("the network %q is not allowed. Try: tcp", network)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return refused("%q is not an IP address with a port", address)
	}
	if err := g.checkPort(to.Port()); err != nil {
		return err
	}
	return g.CheckAddr(to.Addr())
}

// CheckURL returns an error if the guard does not allow connections to a URL. CheckURL checks the form and the
// port of the URL, and all addresses that its host name has now. If the error of CheckURL does not match
// [ErrRefused], it is an error of the DNS resolver.
func (g *Guard) CheckURL(ctx context.Context, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return refused("the text is not a URL. Try: such as https://example.com/hooks")
	}
	if err := g.checkForm(u); err != nil {
		return err
	}
	// checkForm has already checked an address in the URL.
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil
	}
	resolver := g.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	// A name server without an answer must not hold the caller for long.
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addresses, err := resolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return fmt.Errorf("ssrf: the host name cannot be resolved: %w", err)
	}
	for _, a := range addresses {
		if err := g.CheckAddr(a.Unmap()); err != nil { // the resolver may return an IPv4 address inside an IPv6 address
			return err
		}
	}
	return nil
}

// checkForm checks all properties of a URL that need no resolver.
func (g *Guard) checkForm(u *url.URL) error {
	port := uint16(443)
	switch u.Scheme {
	case "https":
	case "http":
		if port = 80; !g.AllowHTTP {
			return refused("the URL begins with http. Try: https, or Guard.AllowHTTP")
		}
	default:
		return refused("the scheme of the URL is %q. Try: https", u.Scheme)
	}
	if u.Hostname() == "" {
		return refused("the URL has no host. Try: such as https://example.com/hooks")
	}
	if u.User != nil {
		return refused("the URL contains a user name or a password. Try: a header for the credentials")
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return refused("the port %q is not a valid port number. Try: a number from 1 to 65535", text)
		}
		port = uint16(n)
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := g.CheckAddr(a); err != nil {
			return err
		}
	}
	return g.checkPort(port)
}

func (g *Guard) checkPort(port uint16) error {
	if slices.Contains(g.AllowPorts, port) || len(g.AllowPorts) == 0 && (port == 443 || port == 80 && g.AllowHTTP) {
		return nil
	}
	return refused("the port %d is not allowed. Try: add the port to Guard.AllowPorts", port)
}
