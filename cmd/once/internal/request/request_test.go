package request

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func files(name string) ([]byte, error) {
	if name == "body.json" {
		return []byte("{\n\"amount\": 5}\n"), nil
	}
	return nil, errors.New("no such file")
}

// TestCurlIsReadAsCurlReadsIt: what browsers, Postman and the pages of APIs give is the request that curl would send.
func TestCurlIsReadAsCurlReadsIt(t *testing.T) {
	const place = "http://localhost:8080/charges"
	form, json := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	for _, c := range []struct {
		words  []string
		method string
		header http.Header
		body   string
	}{
		{[]string{place, "--json", `{"a":1}`}, "POST", json, `{"a":1}`},
		{[]string{"--location", place, "--header", "Content-Type: text/plain", "--data", "x"}, "POST", http.Header{"Content-Type": {"text/plain"}}, "x"},
		{[]string{"-sSX", "PUT", "localhost:8080/charges", "-d", "a=1", "-d", "b=2"}, "PUT", form, "a=1&b=2"},
		{[]string{"-XPATCH", "--url", place, "-da=1", "--compressed"}, "PATCH", form, "a=1"},
		{[]string{place, "-u", "sk:", "-d", "amount=5"}, "POST", with(form, "Authorization", "Basic c2s6"), "amount=5"},
		{[]string{"http://sk:@localhost:8080/charges", "-d", "amount=5"}, "POST", with(form, "Authorization", "Basic c2s6"), "amount=5"},
		{[]string{place, "--data-urlencode", "to=a b", "-b", "s=1"}, "POST", with(form, "Cookie", "s=1"), "to=a+b"},
		{[]string{place, "-d", "@body.json"}, "POST", form, `{"amount": 5}`},
		{[]string{place, "--data-binary", "@body.json"}, "POST", form, "{\n\"amount\": 5}\n"},
		{[]string{place, "--data-raw", "@body.json"}, "POST", form, "@body.json"},
		{[]string{place, "-X", "DELETE", "-H", "X-Empty;"}, "DELETE", http.Header{"X-Empty": {""}}, ""},
	} {
		got, err := parseCurl(append([]string{"curl"}, c.words...), files)
		if err != nil {
			t.Errorf("%q: %v", c.words, err)
			continue
		}
		if got.Method != c.method || got.URL.String() != place || !reflect.DeepEqual(got.Header, c.header) || string(got.Body) != c.body {
			t.Errorf("%q: %s %s %v %q", c.words, got.Method, got.URL, got.Header, got.Body)
		}
	}
}

// TestWhatIsNotUnderstoodIsAnError: a request that is not the one meant could take effect. The error repeats no value.
func TestWhatIsNotUnderstoodIsAnError(t *testing.T) {
	const place = "http://localhost/sesame"
	for says, words := range map[string][]string{
		"no curl command":          {"wget", place},
		"--form":                   {"curl", place, "--form", "sesame=1"},
		"-F":                       {"curl", place, "-Fsesame=1"},
		"-k":                       {"curl", "-sk", place},
		"--unknown":                {"curl", place, "--unknown=sesame"},
		"has no value":             {"curl", place, "-H"},
		"2 URLs":                   {"curl", place, "-H", "Authorization:", "sesame", "-d", "x"},
		"0 URLs":                   {"curl", "-d", "sesame"},
		"NAME: VALUE":              {"curl", place, "-H", "sesame"},
		"no effect":                {"curl", place},
		"does not begin with http": {"curl", "ftp://sesame"},
		"standard input":           {"curl", place, "-d", "@-"},
		"option --data names":      {"curl", place, "-d", "@none"},
		"names a file":             {"curl", place, "-b", "sesame"},
		"no password":              {"curl", place, "-u", "sesame"},
		"not one word":             {"curl", place, "-X", "PO ST"},
		"--json and --data":        {"curl", place, "--json", "{}", "-d", "sesame"},
		"the URL is not valid":     {"curl", "http://sesame:x\x7f@localhost/"},
		"no curl command after":    nil,
	} {
		_, err := parseCurl(words, files)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), ". Try: ") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", words, err)
		}
	}
}

// TestHTTPFile: an .http file is a request with its body as it stands there.
func TestHTTPFile(t *testing.T) {
	r, err := ParseFile([]byte("# a charge\r\n### charge\r\n\r\nPOST http://localhost:8080/charges HTTP/1.1\r\nContent-Type: application/json\r\n// the tenant\r\nAuthorization: Bearer acme\r\n\r\n{\r\n  \"amount\": 5\r\n}\r\n\r\n###\r\n"))
	if err != nil || r.Place() != "POST http://localhost:8080/charges" || string(r.Body) != "{\n  \"amount\": 5\n}" || r.Header.Get("Authorization") != "Bearer acme" || len(r.Header) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for says, text := range map[string]string{
		"0 requests":      "# nothing\n",
		"2 requests":      "POST http://a/\n###\nPOST http://a/\n",
		"variable":        "POST http://{{host}}/\n",
		"METHOD URL":      "http://a/\n",
		"another file":    "POST http://a/\n\n< ./sesame.json\n",
		"script":          "POST http://a/\n\n{}\n\n> {% sesame %}\n",
		"NAME: VALUE":     "POST http://a/\nsesame\n\n",
		"contains a user": "POST http://sesame:x@a/\n\n",
		"no effect":       "GET http://a/\n\n",
	} {
		if _, err := ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), ". Try: ") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzCurlMakesASendableRequest: whatever is pasted, the result is a request that net/http can send, or an error with what to try.
func FuzzCurlMakesASendableRequest(f *testing.F) {
	f.Add("curl\nhttp://localhost/\n-d\nx")
	f.Add("curl\n-sSXPOST\nlocalhost\n-HA: b\n-ua:b")
	f.Add("curl\n--json\n{}\n--url\nhttps://a:b@c/d?e#f")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseCurl(strings.Split(text, "\n"), files)
		check(t, r, err)
	})
}

// FuzzFileMakesASendableRequest is the same for an .http file.
func FuzzFileMakesASendableRequest(f *testing.F) {
	f.Add("POST http://localhost/ HTTP/1.1\nA: b\n\nx")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseFile([]byte(text))
		check(t, r, err)
	})
}

func check(t *testing.T, r *Request, err error) {
	t.Helper()
	if err != nil {
		if !strings.Contains(err.Error(), ". Try: ") {
			t.Errorf("%v", err)
		}
		return
	}
	sent, err := http.NewRequest(r.Method, r.URL.String(), strings.NewReader(string(r.Body)))
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	sent.Header = r.Header
	var b strings.Builder
	if err := sent.Write(&b); err != nil {
		t.Errorf("%+v: %v", r, err)
	}
	if _, err := url.Parse(strings.TrimPrefix(r.Place(), r.Method+" ")); err != nil || r.URL.User != nil {
		t.Errorf("%s: %v", r.Place(), err)
	}
}

// TestCurlInAFile: a curl command in a file is split as a shell splits it. Where a shell would put something else in its place, it is an error.
func TestCurlInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "charge.txt")
	read := func(text string) (*Request, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadFile(file)
	}
	r, err := read("curl 'http://localhost:8080/charges' \\\n  -H \"A: \\\"a\\\\b\\x\" \\\n-H X-Empty\\; --data-raw ''\\''a='b\" c\"\n")
	if err != nil || r.Place() != "POST http://localhost:8080/charges" || r.Header.Get("A") != `"a\b\x` || string(r.Body) != "'a=b c" || len(r.Header["X-Empty"]) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for says, text := range map[string]string{
		"has the character $":   "curl localhost -H \"A: $SESAME\" -d x",
		"has the character `":   "curl localhost -d `sesame`",
		"has the character |":   "curl localhost -d sesame | jq",
		"without a closing one": "curl localhost -d 'sesame",
		"--form":                "curl localhost --form sesame=1",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), ". Try: ") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
