package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestGatewayProtocols: HTTP/1.1, HTTP/2 with and without TLS, trailers, and bodies that wait for 100 Continue.
func TestGatewayProtocols(t *testing.T) {
	t.Parallel()
	s := newKeyless(t)
	const routes = "  anyone: true\n  routes:\n  - {match: POST /pay}\n"
	file, _ := gatewayConfig(t, s, routes)
	plain := startGateway(t, file)
	cert, key, pool := certificate(t)
	file, _ = gatewayConfig(t, s, "  tls: {cert: "+cert+", key: "+key+"}\n"+routes)
	encrypted := startGateway(t, file)
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	for name, c := range map[string]struct {
		to        string
		transport *http.Transport
		major     int
	}{
		"h1":  {plain.public, &http.Transport{}, 1},
		"h2c": {plain.public, h2c, 2},
		"h2":  {encrypted.public, &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}, 2},
	} {
		var first string
		for _, how := range []string{"stored", "replayed"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.to+"/pay", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", name)
			resp, err := c.transport.RoundTrip(req)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if first == "" {
				first = string(body)
			}
			if err != nil || resp.ProtoMajor != c.major || resp.Header.Get("Idempotency-Status") != how || string(body) != first || resp.Trailer.Get("Digest") != "d" {
				t.Errorf("%s: %s %q %v %q %v", name, resp.Proto, body, resp.Header, resp.Trailer, err)
			}
		}
		c.transport.CloseIdleConnections()
	}
	expects(t, plain.public)
	checked(t)
	if o := run(t, "gateway", "check", "-c", file, "--upstream", "nowhere").want(t, 2); !strings.Contains(o.stderr, "\nTry: http://") {
		t.Errorf("%s", o.stderr)
	}
}

// checked looks at what once gateway check prints of routes.
func checked(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "once.yaml")
	for principal, want := range map[string]string{
		"  anyone: true\n": `
upstream  http://127.0.0.1:1
store     sqlite:once-gateway.db
routes    2

ROUTE       PRINCIPAL  RECEIPT                      ON_UNKNOWN
POST /pay   anyone     postgres://ada:xxxxx@db/app  check
POST /mail  anyone     postgres://ada:xxxxx@db/app  stop
`,
		"  principal: {header: X-Tenant, trusted_from: [10.0.0.0/8, '::1']}\n  store: receipt\n": `
upstream  http://127.0.0.1:1
store     none: the gateway uses only the receipts of the service
routes    2

ROUTE       PRINCIPAL                          RECEIPT                      ON_UNKNOWN
POST /pay   X-Tenant from 10.0.0.0/8, ::1/128  postgres://ada:xxxxx@db/app  the receipt decides
POST /mail  X-Tenant from 10.0.0.0/8, ::1/128  postgres://ada:xxxxx@db/app  the receipt decides
`,
	} {
		writeConfig(t, file, "gateway:\n  upstream: http://127.0.0.1:1\n  receipt: postgres://ada:secret@db/app\n"+principal+"  routes:\n  - {match: POST /pay, on_unknown: check}\n  - {match: POST /mail}\n")
		golden(t, run(t, "gateway", "check", "-c", file).want(t, 0).stdout, want)
	}
}

// expects sends a body only when it is asked for.
func expects(t *testing.T, to string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(to, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /pay HTTP/1.1\r\nHost: a\r\nIdempotency-Key: expect\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
	answers := bufio.NewReader(conn)
	line, err := answers.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = io.WriteString(conn, "x")
	_, _ = answers.ReadString('\n')
	if line, err = answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 201 ") {
		t.Errorf("%q, %v", line, err)
	}
}

// certificate writes that of httptest.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	dir := t.TempDir()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		var b bytes.Buffer
		if err := pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}); err != nil {
			t.Fatal(err)
		}
		name = filepath.Join(dir, name)
		writeConfig(t, name, b.String())
		return name
	}
	pool = x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return write("cert.pem", "CERTIFICATE", server.TLS.Certificates[0].Certificate[0]), write("key.pem", "PRIVATE KEY", private), pool
}
