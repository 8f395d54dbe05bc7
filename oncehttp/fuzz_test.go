package oncehttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/internal/base/wire"
)

// FuzzFormKey reads keys out of forms of any make. net/http, which the handler asks
// afterwards, must find the same ones.
func FuzzFormKey(f *testing.F) {
	const form = "application/x-www-form-urlencoded"
	parts := func(values ...string) string {
		var b strings.Builder
		for _, v := range values {
			b.WriteString("--b\r\nContent-Disposition: form-data; " + v + "\r\n")
		}
		return b.String() + "--b--\r\n"
	}
	f.Add(form, "once=k&a=b", "")
	f.Add(form, "once=k&once=k", "k")
	f.Add(form+"; charset=x", "a=%zz&once=%6b;once=k", "k")
	f.Add(form, "once=", "")
	f.Add("multipart/form-data; boundary=b", parts("name=once\r\n\r\nk", "name=\"once\"; filename=\"once\"\r\n\r\nno"), "k")
	f.Add("multipart/form-data; boundary=b", parts("name=once\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=6B"), "")
	f.Add("multipart/form-data; boundary=b", parts("name=once; name=other\r\n\r\nk", "name*=utf-8''once\r\n\r\nl"), "")
	f.Add("multipart/form-data; boundary=b", parts("name=once\r\n\r\n"+strings.Repeat("k", once.MaxKey+1)), "")
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=once\r\n\r\nk", "")
	f.Add("multipart/form-data", "--\r\n\r\n", "k")
	p := &plan{Config: Config{FormField: "once"}}
	f.Fuzz(func(t *testing.T, contentType, body, header string) {
		if keyname.Check(header) != nil {
			header = ""
		}
		r := &http.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {contentType}}}
		key, err := p.bodyKey(r, &content{memory: []byte(body)}, header)
		usable(t, key, err)
		if values, known := asHandlersSee(contentType, body); known {
			if want, wantErr := expected(values, header); (err == nil) != (wantErr == nil) || key != want {
				t.Fatalf("%q: %q, %v; net/http finds %q, beside the header %q", body, key, err, values, header)
			}
		}
		if header != "" { // a key comes back out of a form, whatever there is beside it
			var b bytes.Buffer
			w := multipart.NewWriter(&b)
			if errors.Join(w.WriteField("other", body), w.WriteField("once", header), w.Close()) != nil {
				t.Fatal("a form that cannot be written")
			}
			r.Header.Set("Content-Type", w.FormDataContentType())
			if got, err := p.bodyKey(r, &content{memory: b.Bytes()}, ""); got != header || err != nil {
				t.Fatalf("%q comes back as %q, %v", header, got, err)
			}
		}
	})
}

// usable fails if what was found is neither a key nor a reason to tell the client.
func usable(t *testing.T, key string, err error) {
	t.Helper()
	var reason *wire.KeyError
	switch {
	case err != nil && (key != "" || !errors.As(err, &reason) || reason.Detail == ""):
		t.Fatalf("%q and %v", key, err)
	case err == nil && key != "" && keyname.Check(key) != nil:
		t.Fatalf("%q: %v", key, keyname.Check(key))
	}
}

// asHandlersSee returns what net/http finds in a form, if it has nothing to say against it.
func asHandlersSee(contentType, body string) (values []string, known bool) {
	r := &http.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
	switch err := r.ParseMultipartForm(1 << 20); {
	case err == nil:
		defer func() { _ = r.MultipartForm.RemoveAll() }()
		return r.MultipartForm.Value["once"], true
	case errors.Is(err, http.ErrNotMultipart):
		return r.PostForm["once"], true
	}
	return nil, false
}

// expected is what Config.FormField promises.
func expected(values []string, header string) (string, error) {
	if len(values) == 0 {
		return header, nil
	}
	if len(values) > 1 || header != "" && header != values[0] {
		return "", errTwoKeys
	}
	if err := keyname.Check(values[0]); err != nil {
		return "", err
	}
	return values[0], nil
}

// FuzzCallerIsReadFromTheRequest reads what a request says of itself, all of which is for logs.
func FuzzCallerIsReadFromTheRequest(f *testing.F) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	f.Add("00-"+id+"-b7ad6b7169203331-01", "2", "r1")
	f.Add("cc-"+id+"-b7ad6b7169203331-01-what-the-future-will-say", "2147483648", "a b")
	f.Add("00-"+strings.ToUpper(id)+"-b7ad6b7169203331-01", "-1", strings.Repeat("r", 129))
	f.Add("0-"+id+"-b7ad6b7169203331", "+1", "\x7f")
	f.Add("---", "00000000002", "é")
	f.Fuzz(func(t *testing.T, parent, attempt, id string) {
		c := new(plan).described(&http.Request{Header: http.Header{"Traceparent": {parent}, "Once-Attempt": {attempt}, "X-Request-Id": {id}}}).Attempt
		if trace := traceparent.TraceID(parent); c.CorrelationID != trace {
			t.Errorf("%q has the trace %q, want %q", parent, c.CorrelationID, trace)
		}
		want := 0
		if n, err := strconv.ParseInt(attempt, 10, 32); err == nil && n > 0 && strings.TrimLeft(attempt, "0") == fmt.Sprint(n) && len(attempt) <= 128 {
			want = int(n)
		}
		if c.Number != want {
			t.Errorf("%q is attempt %d, want %d", attempt, c.Number, want)
		}
		if plain := regexp.MustCompile(`^[!-~]{1,128}$`).MatchString(id); c.RequestID != id && plain || c.RequestID != "" && !plain {
			t.Errorf("%q is the request %q", id, c.RequestID)
		}
		if several := new(plan).described(&http.Request{Header: http.Header{"Traceparent": {parent, parent}, "Once-Attempt": {attempt, attempt}}}); several.Attempt != (once.Attempt{}) || several.Attempt.Trace != "" {
			t.Errorf("of two lines one counts: %+v", several)
		}
	})
}
