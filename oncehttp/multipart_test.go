package oncehttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once"
)

// fingerprintOf is that of a multipart request, with its body in memory and in a file.
func fingerprintOf(contentType, body string) once.Fingerprint {
	r := httptest.NewRequest(http.MethodPost, "/upload", http.NoBody)
	r.Header.Set("Content-Type", contentType)
	x := Exchange{plan: &plan{preset: *DefaultPreset()}, r: r, body: inMemory([]byte(body))}
	inMemory, err := x.fingerprint("POST /upload")
	inFile, wrong := fingerprintFile(strings.NewReader(body), int64(len(body)), contentType, "POST", "POST /upload", "/upload", "")
	if inMemory != inFile || err != nil || wrong != nil {
		panic(fmt.Sprintf("%q has another fingerprint in a file (%v, %v)", body, err, wrong))
	}
	return inMemory
}

// readParts is what a handler reads of a multipart body.
func readParts(body, boundary string) string {
	var b strings.Builder
	for parts := multipart.NewReader(strings.NewReader(body), boundary); ; {
		part, err := parts.NextRawPart()
		if err != nil {
			fmt.Fprintf(&b, "ends: %t", errors.Is(err, io.EOF))
			return b.String()
		}
		content, err := io.ReadAll(part)
		fmt.Fprintf(&b, "%v %q %v\n", part.Header, content, err)
	}
}

// A boundary in front of anything but padding and CRLF, or the end, is content, and content
// is compared.
func TestBoundaryInsideOfContent(t *testing.T) {
	body := func(boundary, content string) string {
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n" + content + "\r\n--" + boundary + "--\r\n"
	}
	of := func(boundary, content string) once.Fingerprint {
		return fingerprintOf("multipart/form-data; boundary="+boundary, body(boundary, content))
	}
	if of("a", "1000") != of("b", "1000") || of("a", "1000") == of("b", "9999") {
		t.Error("a boundary is compared, or what it separates is not")
	}
	for _, content := range []string{
		"1\r\n--%sb", "1\r\n--%s-", "1\r\n--%s-x", "1\r\n--%s\r", "1\r\n--%s\n", "1\r\n--%s x", "1\r\n--%s \t\n",
		"1\r\n--%s--x", "1\r\n--%s-- \t-", "1\r\n--%s--\n", "\r\n--%s", "1\n--%s\r\n", "1\r--%s\r\n",
	} {
		a, b := fmt.Sprintf(content, "a")+" 1000", fmt.Sprintf(content, "b")+" 1000"
		if a == b || of("a", a) == of("b", b) {
			t.Errorf("%q and %q are the same", a, b)
		}
	}
	for _, padding := range []string{"", " ", "\t \t"} { // of a delimiter
		of := func(boundary string) once.Fingerprint {
			return fingerprintOf("multipart/form-data; boundary="+boundary,
				"--"+boundary+padding+"\r\n\r\n1\r\n--"+boundary+padding+"\r\n\r\n2\r\n--"+boundary+"--"+padding)
		}
		if of("a") != of("b") {
			t.Errorf("padding %q makes two of one", padding)
		}
	}
	for _, c := range [][2]string{ // lines that end in LF alone are another way to read a body
		{"--a\n\n1\r\n--a\r\n\n--a--", "--b\n\n1\r\n--b\r\n\n--b--"},
		{"--a \n\r\n1\r\n--a\r\n", "--b \n\r\n1\r\n--b\r\n"},
	} {
		if fingerprintOf("multipart/form-data; boundary=a", c[0]) == fingerprintOf("multipart/form-data; boundary=b", c[1]) {
			t.Errorf("%q and %q are the same", c[0], c[1])
		}
	}
	// The other parameters say what a body means.
	related := func(start string) once.Fingerprint {
		return fingerprintOf("multipart/related; boundary=a; start="+start, body("a", "1"))
	}
	if related("one") == related("two") {
		t.Error("only the boundary is left out")
	}
	if before := once.FingerprintOf([]byte("POST"), []byte("POST /upload"), []byte("/upload"), nil, []byte("multipart/form-data"),
		[]byte("\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n1000"), []byte("--\r\n")); of("a", "1000") != before {
		t.Error("an ordinary form has another fingerprint than before")
	}
}

// Two bodies under two boundaries that are compared as the same are read as the same.
func TestBoundariesAtRandom(t *testing.T) {
	tokens := []string{"--a", "--a", "--a--", "\r\n", "\r\n", "\r\n", "\n", "\r", " ", "-", "--", "x", "X: y\r\n", "\r\n--a\r\n\r\n", "\r\n--a--\r\n"}
	r := rand.New(rand.NewPCG(1, 2))
	same := 0
	for range 20_000 {
		var a, b bytes.Buffer
		for i := range 3 + r.IntN(12) {
			token := tokens[r.IntN(len(tokens))]
			if i == 0 && r.IntN(4) > 0 {
				token = "--a\r\n\r\n"
			}
			a.WriteString(token)
			if r.IntN(8) > 0 {
				token = strings.ReplaceAll(token, "--a", "--b")
			}
			b.WriteString(token)
		}
		if a.String() == b.String() || fingerprintOf("multipart/form-data; boundary=a", a.String()) != fingerprintOf("multipart/form-data; boundary=b", b.String()) {
			continue
		}
		same++
		if one, two := readParts(a.String(), "a"), readParts(b.String(), "b"); one != two {
			t.Fatalf("%q is read as\n%s\nbut %q as\n%s", a.String(), one, b.String(), two)
		}
	}
	if same < 500 {
		t.Errorf("vacuous: %d pairs are the same", same)
	}
}
