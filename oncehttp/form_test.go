package oncehttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/oncehttp/stripe"
	"github.com/oncelib/once/store/memstore"
)

const urlencoded = "application/x-www-form-urlencoded"

func buy(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
	fmt.Fprintf(w, "%d: %s", increment(tx, "n"), r.FormValue("item"))
}

func TestFormField(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{FormField: "once"}}, buy)
	for _, c := range []struct {
		body, key string
		status    int
		want      string
		reason    oncehttp.ProblemCode
	}{
		{"once=k&item=book", "", 200, "1: book", ""},
		{"once=k&item=book", "", 200, "1: book", ""}, // the impatient finger
		{"once=k&item=pen", "", 422, "", oncehttp.ProblemMismatch},
		{"once=l&item=book", "", 200, "2: book", ""},
		{"once=k&item=book", "k", 200, "1: book", ""}, // both say the same
		{"item=book", "m", 200, "3: book", ""},
		{"item=book", "", 400, "", oncehttp.ProblemKeyMissing},
		{"once=&item=book", "", 400, "", oncehttp.ProblemKeyInvalid},
		{"once=%00", "", 400, "", oncehttp.ProblemKeyInvalid},
		{"once=k&once=k", "", 400, "", oncehttp.ProblemKeyInvalid},
		{"once=k&item=book", "l", 400, "", oncehttp.ProblemKeyInvalid},
		{"once=" + strings.Repeat("k", 256), "", 400, "", oncehttp.ProblemKeyInvalid},
		{"once=a%2Cb%22%C3%BC&item=any", "", 200, "4: any", ""}, // a field needs no quotation marks
	} {
		header := []string{"Content-Type", urlencoded}
		if c.key != "" {
			header = append(header, "Idempotency-Key", c.key)
		}
		got := s.send("POST", "/buy", c.body, header...)
		if got.status != c.status || c.status == 200 && got.body != c.want || c.status != 200 && got.problem(t).Code != c.reason {
			t.Errorf("%.20s, header %q: %+v", c.body, c.key, got)
		}
	}
	if got := s.send("POST", "/buy", `{"once":"k"}`, "Content-Type", "application/json"); got.status != 400 {
		t.Errorf("not a form: %+v", got)
	}
	if got := s.send("POST", "/buy", `once=k`, "Content-Type", "nonsense; ;"); got.status != 400 {
		t.Errorf("no type: %+v", got)
	}
}

// form is a multipart body with a boundary of its own.
func form(key, item, file string) (contentType, body string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("item", item)
	if key != "" {
		_ = w.WriteField("once", key)
	}
	f, _ := w.CreateFormFile("once", "f")
	_, _ = io.WriteString(f, file)
	_ = w.Close()
	return w.FormDataContentType(), b.String()
}

// Every try of a multipart request has another boundary, and is the same request.
func TestMultipartForm(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{FormField: "once"}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		buy(w, r, tx)
		f, _, err := r.FormFile("once")
		if err != nil {
			return
		}
		b, _ := io.ReadAll(f)
		fmt.Fprintf(w, ", %s", b)
	})
	for _, c := range []struct {
		key, item, file string
		status          int
		want            string
	}{
		{"k", "book", "file", 200, "1: book, file"},
		{"k", "book", "file", 200, "1: book, file"},
		{"k", "book", "other", 422, string(oncehttp.ProblemMismatch)},
		{"k", "pen", "file", 422, string(oncehttp.ProblemMismatch)},
		{"l", "book", "file", 200, "2: book, file"},
		{"", "book", "file", 400, string(oncehttp.ProblemKeyMissing)},
		{strings.Repeat("k", 256), "book", "file", 400, string(oncehttp.ProblemKeyInvalid)},
	} {
		contentType, body := form(c.key, c.item, c.file)
		got := s.send("POST", "/buy", body, "Content-Type", contentType)
		if got.status != c.status || c.status == 200 && got.body != c.want || c.status != 200 && string(got.problem(t).Code) != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	// What is not as its type says is compared as it is.
	for i, contentType := range []string{"multipart/form-data", "multipart/form-data; boundary=other", "multipart/; boundary"} {
		for range 2 {
			if got := s.send("POST", "/buy", "any", "Content-Type", contentType, "Idempotency-Key", fmt.Sprint(i)); got.status != 200 {
				t.Errorf("%s: %+v", contentType, got)
			}
		}
	}
}

// Files that a form leaves on the disk go with the request.
func TestMultipartFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	files := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		return len(entries)
	}
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		if err := r.ParseMultipartForm(1); err != nil || files() != 1 {
			t.Errorf("%d files, %v", files(), err)
		}
		create(w, r, tx)
	})
	contentType, body := form("k", "book", strings.Repeat("x", 1000))
	if got := s.post("k", body, "Content-Type", contentType); got.status != 201 || files() != 0 {
		t.Errorf("%d files left, %+v", files(), got)
	}
}

// A form that outer middleware has parsed is compared by its values.
func TestParsedForm(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{FormField: "once"}, around: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = r.FormValue("csrf")
			next.ServeHTTP(w, r)
		})
	}}, buy)
	for _, c := range []struct {
		body   string
		status int
	}{{"once=k&item=book", 200}, {"once=k&item=book", 200}, {"once=k&item=pen", 422}} {
		if got := s.send("POST", "/buy", c.body, "Content-Type", urlencoded); got.status != c.status || c.status == 200 && got.body != "1: book" {
			t.Errorf("%s: %+v", c.body, got)
		}
	}
	contentType, body := form("k", "book", "file")
	for _, key := range []string{"k", "l"} { // also if it is done already: whether this is the same cannot be said
		got := s.send("POST", "/buy", body, "Content-Type", contentType, "Idempotency-Key", key)
		if p := got.problem(t); got.status != 500 || p.Code != problemFormParsed || p.Retryable || p.SafeNewKey || strings.Contains(got.body, "Try:") {
			t.Errorf("multipart: %+v", got)
		}
		if e := s.log.last(); e.Err == nil || !strings.Contains(e.Err.Error(), "Try: put this middleware inside") {
			t.Errorf("the observer is told of %+v", e)
		}
	}
	s.expect(1, "n", 1)
}

func TestKeyFunc(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Key: func(r *http.Request) (string, error) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return "", err
		}
		q, err := url.ParseQuery(string(b))
		if q.Has("bad") {
			return "", errors.New("a better key is needed")
		}
		return q.Get("id"), err
	}}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		if k, ok := oncehttp.Key(r.Context()); k != "k" || !ok {
			t.Errorf("key %q, %v", k, ok)
		}
		if b, _ := io.ReadAll(r.Body); string(b) != "id=k" {
			t.Errorf("body %q", b)
		}
		create(w, r, tx)
	})
	for body, want := range map[string]int{"id=k": 201, "": 400, "bad": 400, "id=%00": 400} {
		got := s.send("POST", "/", body, "Idempotency-Key", "other")
		if got.status != want {
			t.Errorf("%q: %+v", body, got)
		}
		if body == "bad" && got.problem(t).Detail != "a better key is needed" {
			t.Errorf("%+v", got)
		}
	}
	if got := s.send("POST", "/", "id=k"); got.idempotency() != "replayed" {
		t.Errorf("%+v", got)
	}
}

// What outer middleware has looked at without reading the body is compared as if it had
// not, whatever is compared of it.
func TestParsedWithoutReading(t *testing.T) {
	parse := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			next.ServeHTTP(w, r)
		})
	}
	for _, preset := range []*oncehttp.Preset{oncehttp.DefaultPreset(), stripe.V1(), refundplaybook.Preset()} {
		for _, around := range []func(http.Handler) http.Handler{nil, parse} {
			s := start(t, setup{Config: oncehttp.Config{Preset: preset, FormField: "once"}, around: around}, buy)
			same, other := 200, preset.Problems[oncehttp.ProblemMismatch]
			if other == 0 {
				other = 422
			}
			for i, c := range []struct {
				item   string
				status int
			}{{"book", 200}, {"book", same}, {"pen", other}} {
				contentType, body := form("k", c.item, "file") // with another boundary each time
				if got := s.send("POST", "/buy", body, "Content-Type", contentType); got.status != c.status {
					t.Errorf("%s, parsed %t, form %d: %d", preset.Name, around != nil, i, got.status)
				}
			}
			if preset.Name != "refund-playbook" { // compares JSON by its bytes
				same = other
			}
			for i, c := range []struct {
				body   string
				status int
			}{{`{"a":1,"b":2}`, 200}, {`{"b":2, "a":1}`, same}, {`{"b":2,"a":2}`, other}} {
				if got := s.post("json", c.body, "Content-Type", "application/json"); got.status != c.status {
					t.Errorf("%s, parsed %t, JSON %d: %d", preset.Name, around != nil, i, got.status)
				}
			}
			s.expect(2, "n", 2)
		}
	}
}
