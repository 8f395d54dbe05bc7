package oncehttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// spooling is a service whose bodies of more than 1 KiB are in files, and what it sees of them.
type spooling struct {
	dir        string
	handler    http.Handler
	small      http.Handler // the same service with all of a body in memory
	runs, open int          // runs of the handler, and files that were open then
	names      int          // of files, then
}

func startSpooling(t *testing.T) *spooling {
	t.Helper()
	s := &spooling{dir: t.TempDir()}
	t.Setenv("TMPDIR", s.dir)
	engine := once.New(memstore.New(), once.Config{Observer: once.Discard})
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), MaxRequest: 32 << 20, MaxMemory: 1 << 10}
	h := func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
		s.runs++
		s.open, s.names = s.files(t)
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n != r.ContentLength {
			t.Errorf("%d bytes, %v", n, err)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, n)
	}
	s.handler = oncehttp.Handler(engine, cfg, h)
	cfg.MaxMemory = 0
	s.small = oncehttp.Handler(engine, cfg, h)
	return s
}

// files counts the files of bodies: those that are open, and those that have a name.
func (s *spooling) files(t *testing.T) (open, names int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, s.dir) {
			open++
		}
	}
	named, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return open, len(named)
}

func (s *spooling) post(h http.Handler, contentType string, body io.Reader, size int64) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/upload", body)
	r.ContentLength = size
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A body of more than Config.MaxMemory is in a file without a name, which is gone with the request. It is compared to its last
// byte, and with the same body in memory, whatever the boundary of its parts is.
func TestABodyInAFile(t *testing.T) {
	const (
		boundaryLength = 20
		edge           = len("--") + boundaryLength + 64<<10 // of the first read, which begins behind the first boundary
	)
	multipart := func(boundary string) (contentType, body string) {
		var b strings.Builder
		for n := range 40 { // one boundary lies on the edge of two reads
			size := 4000
			if n == 15 {
				size = edge - boundaryLength/2 - b.Len() - len("--\r\n\r\n\r\n") - boundaryLength
			}
			fmt.Fprintf(&b, "--%s\r\n\r\n%s\r\n", boundary, strings.Repeat("x", size))
		}
		return "multipart/form-data; boundary=" + boundary, b.String() + "--" + boundary + "--\r\n"
	}
	first, second := strings.Repeat("a", boundaryLength), strings.Repeat("b", boundaryLength)
	binary := strings.Repeat("0123456789", 20_000)
	type request struct{ contentType, body string }
	of := func(contentType, body string) request { return request{contentType, body} }
	changed := func(r request) request {
		at := strings.LastIndexAny(r.body, "9x")
		return request{r.contentType, r.body[:at] + "!" + r.body[at+1:]}
	}
	for name, c := range map[string]struct {
		sent, again, other request
		files              int
	}{
		"binary":           {of("application/octet-stream", binary), of("application/octet-stream", binary), changed(of("application/octet-stream", binary)), 1},
		"shorter":          {of("text/plain", binary), of("text/plain", binary), of("text/plain", binary[1:]), 1},
		"in memory":        {of("text/plain", binary[:1<<10]), of("text/plain", binary[:1<<10]), of("text/plain", binary[:1<<10-1]), 0},
		"multipart":        {of(multipart(first)), of(multipart(second)), changed(of(multipart(first))), 1},
		"another boundary": {of(multipart(first)), of(multipart(second)), of("multipart/form-data; boundary=c", strings.ReplaceAll(binary, "9", "\n--c")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSpooling(t)
			send := func(h http.Handler, r request) *httptest.ResponseRecorder {
				return s.post(h, r.contentType, strings.NewReader(r.body), int64(len(r.body)))
			}
			if w := send(s.handler, c.sent); w.Code != 201 || w.Body.String() != fmt.Sprint(len(c.sent.body)) || s.open != c.files || s.names != 0 {
				t.Fatalf("%d %s, %d files are open, %d have a name", w.Code, w.Body, s.open, s.names)
			}
			for _, h := range []http.Handler{s.handler, s.small} {
				if w := send(h, c.again); w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "true" {
					t.Errorf("the retry: %d %s", w.Code, w.Body)
				}
				if w := send(h, c.other); w.Code != 422 {
					t.Errorf("another request: %d %s", w.Code, w.Body)
				}
			}
			if open, names := s.files(t); s.runs != 1 || open != 0 || names != 0 {
				t.Errorf("%d runs, %d files are left open, %d have a name", s.runs, open, names)
			}
		})
	}
}

// zeros are so many bytes that take no room.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A body in a file takes no memory, also where its size is not known before. One that is too large is 413, and leaves no file.
func TestABodyInAFileTakesNoMemory(t *testing.T) {
	s := startSpooling(t)
	const size = 16 << 20
	for _, contentType := range []string{"application/octet-stream", "multipart/form-data; boundary=b"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := s.post(s.handler, contentType, io.LimitReader(zeros{}, size), size)
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 2<<20 {
			t.Errorf("%s: %d KiB of memory, %d", contentType, spent>>10, w.Code)
		}
	}
	if s.runs != 1 || s.open != 1 {
		t.Errorf("vacuous: %d runs, %d files", s.runs, s.open)
	}
	if w := s.post(s.handler, "text/plain", io.LimitReader(zeros{}, 33<<20), -1); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if open, names := s.files(t); open != 0 || names != 0 || s.runs != 1 {
		t.Errorf("%d files are left open, %d have a name", open, names)
	}
}

// Where the file cannot be written, nothing is executed, and the same request may come again.
func TestABodyThatCannotBeKept(t *testing.T) {
	s := startSpooling(t)
	t.Setenv("TMPDIR", filepath.Join(s.dir, "missing"))
	body := bytes.Repeat([]byte("x"), 2<<10)
	if w := s.post(s.handler, "text/plain", bytes.NewReader(body), int64(len(body))); w.Code != 503 || !strings.Contains(w.Body.String(), string(oncehttp.ProblemStoreUnavailable)) || s.runs != 0 {
		t.Errorf("%d %s after %d runs", w.Code, w.Body, s.runs)
	}
	t.Setenv("TMPDIR", s.dir)
	if w := s.post(s.handler, "text/plain", bytes.NewReader(body), int64(len(body))); w.Code != 201 || s.runs != 1 {
		t.Errorf("%d %s after %d runs", w.Code, w.Body, s.runs)
	}
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), MaxMemory: 1, FormField: "key"}
	if p := panicOf(func() { oncehttp.NewRoute(once.New(memstore.New(), once.Config{}), cfg) }); !strings.Contains(p, "MaxMemory") || !strings.Contains(p, "\nTry: ") {
		t.Errorf("a form in a file: %q", p)
	}
}
