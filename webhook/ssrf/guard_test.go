package ssrf

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Bad are addresses to which nothing is sent, and public ones.
var (
	bad = strings.Fields(`
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 100.100.100.200 127.0.0.1 127.1.2.3 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1
172.31.255.255 192.0.0.1 192.0.0.170 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.168.0.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1
203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 168.63.129.16
:: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1 100:0:0:1::1 2001::1 2001:2::1 2001:10::1 2001:20::1
2001:db8::1 2002:7f00:1::1 2620:4f:8000::1 3fff::1 5f00::1 4000::1 fc00::1 fd00:ec2::254 fd20:ce::254 fe80::1 fe80::1%lo 2606:4700::1%lo fec0::1 ff02::1`)
	good = strings.Fields(`
1.1.1.1 8.8.8.8 93.184.216.34 100.63.255.255 100.128.0.1 126.255.255.255 172.15.255.255 172.32.0.1 192.0.1.1 192.167.255.255 198.17.255.255 198.20.0.1 223.255.255.255
2001:200::1 2001:4860:4860::8888 2400::1 2606:4700::1111 2a00:1450::1 3ffe::1`)
)

// TestAddressesMustBePublic: only public addresses are allowed, at creation and at the connection, and each refusal says what would allow it.
func TestAddressesMustBePublic(t *testing.T) {
	g := &Guard{}
	if len(bad) < 40 {
		t.Fatal("vacuous")
	}
	for _, text := range bad {
		a := netip.MustParseAddr(text)
		err := g.CheckAddr(a)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), a.String()) {
			t.Errorf("%s: %v", text, err)
		}
		if says := err.Error(); !strings.Contains(says, "Guard.AllowPrefixes") && !strings.Contains(says, "no setting allows it") && !a.Is4In6() && a.Zone() == "" {
			t.Errorf("%s: %v", text, err)
		}
		if err := g.Control("tcp6", netip.AddrPortFrom(a, 443).String(), nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s at the connection: %v", text, err)
		}
		host := text
		if a.Is6() {
			host = "[" + strings.ReplaceAll(text, "%", "%25") + "]"
		}
		if err := g.CheckURL(t.Context(), "https://"+host+"/"); !errors.Is(err, ErrRefused) {
			t.Errorf("%s in a URL: %v", text, err)
		}
	}
	for _, text := range good {
		if err := g.Control("tcp4", netip.AddrPortFrom(netip.MustParseAddr(text), 443).String(), nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAllowPrefixes: a setting allows what it names and no more, and never an address for metadata.
func TestAllowPrefixes(t *testing.T) {
	for allow, cases := range map[string]map[string]bool{
		"10.20.0.0/16": {"10.20.1.1": true, "10.21.1.1": false, "::ffff:10.20.1.1": false},
		"0.0.0.0/0":    {"10.0.0.1": true, "169.254.1.1": true, "169.254.169.254": false, "168.63.129.16": false, "100.100.100.200": false},
		"::/0":         {"fc00::1": true, "::1": true, "fd00:ec2::254": false, "fe80::1%lo": false, "::ffff:127.0.0.1": false, "64:ff9b::a9fe:a9fe": false},
		"64:ff9b::/96": {"64:ff9b::808:808": true, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b::a00:1": false},
	} {
		g := &Guard{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix(allow)}}
		for text, want := range cases {
			if err := g.CheckAddr(netip.MustParseAddr(text)); (err == nil) != want {
				t.Errorf("%s with %s: %v", text, allow, err)
			}
		}
	}
	if (&Guard{}).CheckAddr(netip.Addr{}) == nil {
		t.Error("no address is allowed")
	}
}

// TestURLsThatAreRefused: what a URL may not have, and which setting would allow it.
func TestURLsThatAreRefused(t *testing.T) {
	open := &Guard{AllowHTTP: true, AllowPorts: []uint16{8443}}
	for text, says := range map[string]string{
		"https://1.1.1.1/":          "",
		"https://1.1.1.1:443/":      "",
		"http://1.1.1.1/":           "Guard.AllowHTTP",
		"https://1.1.1.1:8443/":     "Guard.AllowPorts",
		"https://1.1.1.1:0/":        "Guard.AllowPorts",
		"https://1.1.1.1:99999/":    "65535",
		"https://a:b@1.1.1.1/":      "a header",
		"https:///x":                "no host",
		"ftp://1.1.1.1/":            "scheme",
		"gopher://1.1.1.1/":         "scheme",
		"file:///etc/passwd":        "scheme",
		"//1.1.1.1/":                "scheme",
		"1.1.1.1":                   "scheme",
		"":                          "scheme",
		"https://[::1":              "not a URL",
		"https://1.1.1.1\r\nHost:x": "not a URL",
	} {
		err := (&Guard{}).CheckURL(t.Context(), text)
		if says == "" && err != nil || says != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := errors.Join(open.CheckURL(t.Context(), "http://1.1.1.1:8443/"), open.Control("tcp4", "1.1.1.1:8443", nil)); err != nil {
		t.Error(err)
	}
	for _, c := range [][2]string{{"unix", "/x"}, {"udp4", "1.1.1.1:443"}, {"tcp4", "1.1.1.1:22"}, {"tcp4", "1.1.1.1:443"}, {"tcp4", "example.com:443"}, {"tcp4", ""}} {
		if err := open.Control(c[0], c[1], nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// names is a resolver whose answers to a question for IPv4 are addresses, one after the other; the last one stays.
func names(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	var asked atomic.Int32
	answer := func(query []byte) []byte {
		end := 12
		for query[end] != 0 {
			end += int(query[end]) + 1
		}
		end += 5
		kind := binary.BigEndian.Uint16(query[end-4:])
		reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
		if kind == 1 {
			n := min(int(asked.Add(1)), len(addresses))
			reply[7] = 1
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			reply = append(reply, netip.MustParseAddr(addresses[n-1]).AsSlice()...)
		}
		return reply
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer func() { _ = server.Close() }()
			var size [2]byte
			for {
				if _, err := io.ReadFull(server, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(server, query); err != nil {
					return
				}
				reply := answer(query)
				if _, err := server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
					return
				}
			}
		}()
		return client, nil
	}}
}

// listening is a server on this host, how many connections it has had, and a guard that allows its port and its certificate.
func listening(t *testing.T, h http.HandlerFunc) (s *httptest.Server, connections *atomic.Int32, g *Guard) {
	t.Helper()
	connections = new(atomic.Int32)
	s = httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return s, connections, &Guard{RootCAs: pool, AllowPorts: []uint16{portOf(s)}}
}

func portOf(s *httptest.Server) uint16 {
	return uint16(s.Listener.Addr().(*net.TCPAddr).Port)
}

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }

func get(t *testing.T, g *Guard, target string) (*http.Response, error) {
	t.Helper()
	client := g.Client()
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

// TestNameChangesItsAddress: a name that was public when it was checked, and is this host when it is used, is not connected to.
func TestNameChangesItsAddress(t *testing.T) {
	s, connections, g := listening(t, func(http.ResponseWriter, *http.Request) {})
	target := "https://example.com:" + s.URL[strings.LastIndex(s.URL, ":")+1:]
	g.Resolver = names(t, "93.184.216.34", "127.0.0.1")
	if err := g.CheckURL(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, g, target); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Error(err)
	}
	if err := g.CheckURL(t.Context(), target); !errors.Is(err, ErrRefused) {
		t.Errorf("at creation: %v", err)
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
	g.AllowPrefixes = loopback() // the test reaches the server: so it would have been reached
	if resp, err := get(t, g, target); err != nil || resp.StatusCode != http.StatusOK || connections.Load() != 1 {
		t.Error(err)
	}
	broken := &Guard{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("down") }}}
	if err := broken.CheckURL(t.Context(), "https://example.com/"); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a resolver that is down: %v", err)
	}
}

// TestRedirectsAreNotFollowed: neither the method nor the body of a request goes anywhere else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	second, connections, _ := listening(t, func(http.ResponseWriter, *http.Request) {})
	for _, status := range []int{301, 302, 303, 307, 308} {
		s, _, g := listening(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", second.URL)
			w.WriteHeader(status)
		})
		g.AllowPrefixes, g.AllowPorts = loopback(), append(g.AllowPorts, portOf(second))
		resp, err := get(t, g, s.URL)
		if err != nil || resp.StatusCode != status {
			t.Errorf("%d: %v", status, err)
		}
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections to where a receiver has sent the client", n)
	}
}

// TestProxyMustBeConfigured: no proxy is asked that was not configured. One that is may have any address, and URLs are checked all the same.
func TestProxyMustBeConfigured(t *testing.T) {
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)
	g := &Guard{Resolver: names(t, "10.0.0.1"), AllowHTTP: true}
	for _, target := range []string{"https://example.com/", "http://example.com/"} {
		if _, err := get(t, g, target); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "10.0.0.1") || asked.Load() > 0 {
			t.Errorf("%s: %v, %d requests to a proxy of the environment", target, err, asked.Load())
		}
	}
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	g.Proxy = u
	if _, err := get(t, g, "https://example.com/"); err == nil || asked.Load() != 1 {
		t.Errorf("%v, %d requests to the proxy", err, asked.Load())
	}
	if _, err := get(t, g, "https://10.0.0.1/"); !errors.Is(err, ErrRefused) || asked.Load() != 1 {
		t.Errorf("%v, %d requests to the proxy", err, asked.Load())
	}
}

// TestClientBounds: certificates are verified, and no answer takes more bytes or more time than is allowed.
func TestClientBounds(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		change func(*Guard)
		want   func(*http.Response, error) bool
	}{
		"in bounds": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, func(*Guard) {}, func(r *http.Response, err error) bool {
			return err == nil && r.StatusCode == http.StatusOK
		}},
		"an unknown certificate": {func(http.ResponseWriter, *http.Request) {}, func(g *Guard) { g.RootCAs = nil }, func(_ *http.Response, err error) bool {
			return err != nil && strings.Contains(err.Error(), "certificate")
		}},
		"a refused port": {func(http.ResponseWriter, *http.Request) {}, func(g *Guard) { g.AllowPorts = nil }, func(_ *http.Response, err error) bool {
			return errors.Is(err, ErrRefused)
		}},
		"a large body": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) }, func(g *Guard) { g.MaxAnswer = 1000 }, func(r *http.Response, err error) bool {
			var tooLarge *http.MaxBytesError
			return err == nil && errors.As(drain(r), &tooLarge)
		}},
		"large headers": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, func(*Guard) {}, func(_ *http.Response, err error) bool {
			return err != nil
		}},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(g *Guard) { g.Timeout = 50 * time.Millisecond }, func(_ *http.Response, err error) bool {
			var netErr net.Error
			return errors.As(err, &netErr) && netErr.Timeout()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, g := listening(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the end of the connection
				c.answer(w, r)
			})
			g.AllowPrefixes = loopback()
			c.change(g)
			if resp, err := get(t, g, s.URL); !c.want(resp, err) {
				t.Error(err)
			}
		})
	}
}

func drain(r *http.Response) error {
	_, err := io.Copy(io.Discard, r.Body)
	return err
}
