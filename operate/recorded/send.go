package recorded

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// ReplayHeader is the name of a header that every replay (a recorded request that is sent again) has. The value of the header ReplayHeader is
// Request.ID.
const ReplayHeader = "Once-Replay-Of"

// HTTP returns r as an [http.Request] to the service at target. The URL of the result has the path of target, followed by the recorded path. Each
// header in the parameter changed replaces the recorded header of the same name; a header with an empty value removes the recorded header.
func (r *Request) HTTP(ctx context.Context, target *url.URL, changed http.Header) (*http.Request, error) {
	u, err := exactly(strings.TrimSuffix(target.EscapedPath(), "/") + r.Path)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = target.Scheme, target.Host
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // without GetBody net/http cannot repeat the request on its own, which would make the counts wrong
	req.URL = u
	for name, lines := range r.Headers {
		req.Header[name] = slices.Clone(lines)
	}
	for name, lines := range changed {
		if strings.EqualFold(name, "Host") {
			req.Host = lines[0]
		}
		// The file may spell the name in another way.
		for recorded := range req.Header {
			if strings.EqualFold(recorded, name) {
				delete(req.Header, recorded)
			}
		}
		if !slices.Equal(lines, []string{""}) {
			req.Header[name] = lines
		}
	}
	if req.UserAgent() == "" {
		req.Header["User-Agent"] = []string{""} // with an empty line net/http sends no User-Agent
	}
	req.Header.Set(ReplayHeader, r.ID)
	return req, nil
}

// exactly returns a URL that net/http sends exactly as path is written.
func exactly(path string) (*url.URL, error) {
	raw, query, asks := strings.Cut(path, "?")
	unescaped, err := url.PathUnescape(raw)
	if err != nil {
		return nil, err
	}
	u := &url.URL{Path: unescaped, RawPath: raw, RawQuery: query, ForceQuery: asks && query == ""}
	if u.RequestURI() == path {
		return u, nil
	}
	u = &url.URL{Opaque: path} // net/url would escape the path in another way
	if u.RequestURI() != path {
		return nil, fmt.Errorf("the path %q cannot be sent unchanged", path)
	}
	return u, nil
}

// Resolver has the method of [net.Resolver] that [Request.CameFrom] uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// CameFrom reports whether target may be the server that recorded the request. CameFrom returns true in two cases: target has the recorded host name
// (the ports may differ), or target has an IP address and the port of the recorded host. If resolver cannot resolve the recorded host, CameFrom
// compares only the host names.
func (r *Request) CameFrom(ctx context.Context, target *url.URL, resolver Resolver) bool {
	recorded, err := url.Parse("//" + r.Host)
	if err != nil {
		return true
	}
	samePort := recorded.Port() == "" || recorded.Port() == portOf(target) // a host without a port used the default port of its scheme, and the scheme is not recorded
	name, other := hostName(recorded), hostName(target)
	here, there := addresses(ctx, resolver, name), addresses(ctx, resolver, other)
	// On this machine each port is another service, and elsewhere one name is usually one service.
	if name == other && (samePort || !isLocal(name, here)) {
		return true
	}
	return samePort && slices.ContainsFunc(here, func(ip netip.Addr) bool { return slices.Contains(there, ip) })
}

func hostName(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// isLocal reports whether many services may share the name, each at its own port.
func isLocal(name string, addresses []netip.Addr) bool {
	return net.ParseIP(name) != nil || len(addresses) > 0 && !slices.ContainsFunc(addresses, func(ip netip.Addr) bool { return !ip.IsLoopback() })
}

// addresses returns the addresses of a name, or nil if they are not known. All addresses of this machine count as one.
func addresses(ctx context.Context, resolver Resolver, name string) []netip.Addr {
	ip, err := netip.ParseAddr(name)
	list := []netip.Addr{ip}
	if err != nil {
		if list, err = resolver.LookupNetIP(ctx, "ip", name); err != nil {
			return nil
		}
	}
	for i, ip := range list {
		if list[i] = ip.Unmap().WithZone(""); list[i].IsLoopback() || list[i].IsUnspecified() {
			list[i] = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
	}
	return list
}
