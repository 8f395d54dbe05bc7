package recorded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/oncelib/once/operate/recorded"
)

const capture = "POST /charges?note=%2f%22 HTTP/1.1\r\nHost: api.example\r\nIdempotency-Key: \"k\"\r\nPragma: no-cache\r\nX-Api-Key: secret\r\nX-Two: a\r\nX-Two: b\r\nContent-Length: 5\r\n\r\na\r\n\x00b"

func exported(t *testing.T) recorded.Request {
	t.Helper()
	r, err := recorded.FromCapture([]byte(capture), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.ID = "id-1"
	return r
}

func file(t *testing.T, r recorded.Request) []byte {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFileKeepsTheExactRequest: what was captured comes out of the file as it was, except for its secrets.
func TestFileKeepsTheExactRequest(t *testing.T) {
	r := exported(t)
	got, err := recorded.Parse(file(t, r))
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Fatalf("%+v\nwant %+v, %v", got, r, err)
	}
	want := http.Header{"Idempotency-Key": {`"k"`}, "Pragma": {"no-cache"}, "X-Two": {"a", "b"}}
	if got.Method != http.MethodPost || got.Path != "/charges?note=%2f%22" || got.Host != "api.example" || string(got.Body) != "a\r\n\x00b" || !reflect.DeepEqual(got.Headers, want) || !reflect.DeepEqual(got.Redacted, []string{"X-Api-Key"}) {
		t.Errorf("%+v", got)
	}
	for _, plain := range []string{"", "POST", "POST / HTTP/1.1\r\n", "a value of a program", `{"amount":1}`, capture + "c", strings.Replace(capture, "HTTP/1.1", "HTTP/2", 1)} {
		if _, err := recorded.FromCapture([]byte(plain), nil); err == nil {
			t.Errorf("%q is a request", plain)
		}
	}
}

// TestSecretsAreLeftOut: whatever the header with a secret is called. What a replay needs is there.
func TestSecretsAreLeftOut(t *testing.T) {
	head, rest, _ := strings.Cut(capture, "Content-Length")
	for name, secret := range map[string]bool{
		"Authorization": true, "set-cookie": true, "X-Auth-Token": true, "X-Amz-Security-Token": true, "X-Goog-Api-Key": true, "x_api_key": true, "ApiKey": true,
		"X-Vault-Token": true, "X-Shopify-Access-Token": true, "Ocp-Apim-Subscription-Key": true, "X-Goog-Iap-Jwt-Assertion": true, "Cf-Access-Client-Secret": true, "X-Session-Id": true,
		"X-Passwd": true, "X-Passphrase": true, "X-Private-Key": true, "X-Functions-Key": true, "X-Otp": true, "x_pin": true, "Signature": true, "Dpop": true,
		"X-Amz-Signature": true, "X-Forwarded-Client-Cert": true, "Client-Cert": true, "X-Amz-Server-Side-Encryption-Customer-Key": true, "X-Ms-Encryption-Key": true, "Pwd": true,
		"X-Shipping": false, "X-Mapping-Id": false, "X-Laptop": false, "Signature-Input": false, "X-Idempotency-Key": false,
		"Once-Attempt": false, "Once-First-Sent": false, "Content-Type": false, "X-Request-Id": false, "Traceparent": false, "Stripe-Signature": false,
	} {
		r, err := recorded.FromCapture([]byte(head+name+": s3cret\r\nContent-Length"+rest), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if kept := strings.Contains(string(file(t, r)), "s3cret"); kept == secret || len(r.Redacted) != 1+map[bool]int{true: 1}[secret] {
			t.Errorf("%s: kept %v, left out %v", name, kept, r.Redacted)
		}
	}
}

// TestParseRefuses: a file that cannot be sent is refused, and the error says what to try.
func TestParseRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*recorded.Request){
		"was not written by once keys export": func(r *recorded.Request) { r.Format = "har" },
		"version 2":                           func(r *recorded.Request) { r.Version = 2 },
		"not an HTTP method":                  func(r *recorded.Request) { r.Method = "PO ST" },
		"not the path of a URL":               func(r *recorded.Request) { r.Path = "http://api.example/" },
		`" HTTP/1.1\r\nX: y" is not the path`: func(r *recorded.Request) { r.Path = " HTTP/1.1\r\nX: y" },
		"not the ID of a request":             func(r *recorded.Request) { r.ID = "a\r\nb" },
		"not a host":                          func(r *recorded.Request) { r.Host = "a/b" },
		`"" is not a host`:                    func(r *recorded.Request) { r.Host = "" },
		"not the name of a header":            func(r *recorded.Request) { r.Headers["a b"] = nil },
		"a line break":                        func(r *recorded.Request) { r.Headers["A"] = []string{"x\r\nB: y"} },
	} {
		r := exported(t)
		spoil(&r)
		if _, err := recorded.Parse(file(t, r)); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), " Try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParsedRequestCanBeSent: what is parsed can be sent, and arrives as it is in the file.
func FuzzParsedRequestCanBeSent(f *testing.F) {
	r, err := recorded.FromCapture([]byte(capture), nil)
	if err != nil {
		f.Fatal(err)
	}
	r.ID = "id-1"
	text, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"once-request","version":1,"id":"x","method":"GET","path":"/%zz","host":"[::1]:80"}`))
	f.Add([]byte(`{"format":"once-request","version":1,"id":"x","method":"get","path":"//a/b?c#d%","host":"a","headers":{"hOST":["x"],"Transfer-Encoding":["chunked"]}}`))
	f.Add([]byte(`{"format":"once-request","version":1,"id":"x","method":"PUT","path":"/a\"b?c=1&c=\"","host":"a","headers":{"uSER-Agent":[""]},"body":"AAEC"}`))
	f.Add([]byte(`{"format":"once-request","version":1,"id":"x","method":"PUT","path":"//a/b??","host":"a"}`))
	f.Add([]byte(`{"format":"once-request","version":1,"id":"x","method":"PUT","path":"/?","host":"a:"}`))
	type arrival struct{ method, uri, id, body string }
	last := make(chan arrival, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last <- arrival{r.Method, r.RequestURI, r.Header.Get(recorded.ReplayHeader), string(body)}
	}))
	f.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := recorded.Parse(text)
		if err != nil {
			return
		}
		req, err := r.HTTP(t.Context(), target, nil)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if req.Method == http.MethodConnect || len(text) > 1<<10 { // net/http speaks otherwise to a proxy, and headers have a bound
			return
		}
		select {
		case <-last: // of a request whose answer was not understood
		default:
		}
		resp, err := server.Client().Transport.RoundTrip(req)
		if err != nil { // it was refused, or the server did not understand it
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return
		}
		if got, want := <-last, (arrival{r.Method, r.Path, r.ID, string(r.Body)}); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	})
}

// FuzzFromCapture: anything that a program has kept is read, or refused.
func FuzzFromCapture(f *testing.F) {
	f.Add([]byte(capture))
	f.Fuzz(func(t *testing.T, plain []byte) {
		r, err := recorded.FromCapture(plain, []string{"x-two"})
		if err != nil {
			return
		}
		if !bytes.HasSuffix(plain, r.Body) || r.Headers.Get("X-Api-Key") != "" || r.Headers.Get("X-Two") != "" {
			t.Errorf("%+v", r)
		}
	})
}

// names is what a name server knows.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	ip, ok := n[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.MustParseAddr(ip)}, nil
}

// TestCameFrom: the recorded host is known by its name and by its addresses; another service beside it is another one.
func TestCameFrom(t *testing.T) {
	known := names{"api.example": "192.0.2.1", "alias.example": "192.0.2.1", "six.example": "::ffff:192.0.2.1", "staging.example": "192.0.2.2", "localhost": "::1"}
	for _, c := range []struct {
		recorded, target string
		same             bool
	}{
		{"api.example", "https://api.example", true},
		{"api.example", "http://API.example.", true},
		{"api.example", "https://api.example:8443", true},
		{"api.example:8443", "https://api.example:9443", true},
		{"api.example:8443", "https://192.0.2.1:8443", true},
		{"api.example", "https://alias.example", true},
		{"api.example:443", "https://alias.example", true},
		{"api.example:80", "http://six.example/v1", true},
		{"api.example:443", "http://alias.example", false},
		{"api.example:443", "https://alias.example:8443", false},
		{"api.example", "https://staging.example", false},
		{"unknown.example", "https://staging.example", false},
		{"unknown.example", "https://unknown.example:1", true},
		{"api.example", "http://127.0.0.1:8080", false},
		{"127.0.0.1:8080", "http://127.0.0.1:8081", false},
		{"127.0.0.1:8080", "http://localhost:8080", true},
		{"localhost:8080", "http://0.0.0.0:8080", true},
		{"localhost:8080", "http://localhost:8081", false},
		{"[::1]:8080", "http://127.0.0.1:8080", true},
		{"192.0.2.1", "https://192.0.2.1", true},
	} {
		r := recorded.Request{Host: c.recorded}
		target, err := url.Parse(c.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.CameFrom(t.Context(), target, known); got != c.same {
			t.Errorf("recorded at %s, to %s: %v", c.recorded, c.target, got)
		}
	}
}

func ExampleParse() {
	_, err := recorded.Parse([]byte(`{"format":"once-request","version":7}`))
	fmt.Println(err)
	// Output: the file has version 7, but this release of once reads version 1. Try: the release of once that has written the file
}
