package oncehttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// FuzzReplayIsTheFirstAnswer compares, byte by byte and on the wire, the first answer of an operation
// with its replay. Only what says that it is one may differ, and what is never stored.
func FuzzReplayIsTheFirstAnswer(f *testing.F) {
	f.Add(uint16(201), "Location: /refunds/1\nContent-Type: application/json", []byte(`{"id":1}`), uint8(0))
	f.Add(uint16(200), "Link: </a>\nLink: </b>\nlink: </c>\nETag: \"1\"\nEtag: W/\"2\"", []byte("<html>"), uint8(1))
	f.Add(uint16(204), "Content-Type: a/b\nContent-Length: 7", []byte("no"), uint8(2))
	f.Add(uint16(304), "Set-Cookie: a=b\nLocation:  /x\r \nX-Kept:", []byte{}, uint8(3))
	f.Add(uint16(422), "Content-Type:\nContent-Encoding: gzip", []byte{0x1f, 0x8b}, uint8(4))
	f.Add(uint16(999), "Transfer-Encoding: chunked\nConnection: close\nTrailer: X-Kept\nDate: never", bytes.Repeat([]byte("x"), 5000), uint8(7))
	f.Add(uint16(303), "Idempotency-Status: stored\nIdempotent-Replayed: true\n: empty\na b: c\n\x00: \x00", []byte("\r\n\r\n"), uint8(0))

	var spec struct {
		status int
		header []string
		body   []byte
		mode   uint8
	}
	preset := oncehttp.DefaultPreset()
	preset.Verdicts = map[int]oncehttp.Verdict{2: oncehttp.VerdictCommit, 3: oncehttp.VerdictCommit, 4: oncehttp.VerdictAnswerOnly}
	for class := 5; class <= 9; class++ {
		preset.Verdicts[class] = oncehttp.VerdictCommit
	}
	runs := 0
	server := httptest.NewUnstartedServer(oncehttp.Handler(once.New(memstore.New(), once.Config{}), oncehttp.Config{
		Principal: oncehttp.SharedPrincipal(), Preset: preset, Headers: []string{"X-Kept", "Set-Cookie"},
	}, func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
		runs++
		h := w.Header()
		for _, line := range spec.header {
			name, value, _ := strings.Cut(line, ":")
			if spec.mode&1 == 0 {
				name = http.CanonicalHeaderKey(name)
			}
			h[name] = append(h[name], value)
		}
		if spec.mode&2 == 0 {
			w.WriteHeader(spec.status)
		}
		if spec.mode&4 == 0 {
			_, _ = w.Write(spec.body)
			return
		}
		for piece := range bytes.SplitAfterSeq(spec.body, []byte("x")) {
			_, _ = w.Write(piece)
			w.(http.Flusher).Flush()
		}
	}))
	socket, err := net.Listen("unix", filepath.Join(f.TempDir(), "s")) // TCP would run out of ports
	if err != nil {
		f.Fatal(err)
	}
	server.Listener = socket
	server.Start()
	f.Cleanup(server.Close)
	key := 0
	f.Fuzz(func(t *testing.T, status uint16, header string, body []byte, mode uint8) {
		spec.status, spec.body, spec.mode = 200+int(status)%800, body, mode
		spec.header = strings.Split(header, "\n")
		key++
		before := runs
		request := fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\nIdempotency-Key: k%d\r\nContent-Length: 3\r\n\r\nabc", key, key)
		first, again := exchange(t, socket.Addr(), request), exchange(t, socket.Addr(), request)
		if runs != before+1 && !bytes.Contains(first, []byte("streaming-refused")) {
			t.Fatalf("the handler has run %d times:\n%q\n%q", runs-before, first, again)
		}
		status1, header1, body1 := split(t, first)
		status2, header2, body2 := split(t, again)
		if status1 != status2 || !bytes.Equal(body1, body2) {
			t.Fatalf("first %s %q\nagain %s %q", status1, body1, status2, body2)
		}
		if a, b := keptLines(header1), keptLines(header2); a != b {
			t.Fatalf("first\n%s\nagain\n%s", a, b)
		}
		for _, line := range header2 {
			if name, _, _ := strings.Cut(strings.ToLower(line), ":"); name == "set-cookie" || name == "x-other" {
				t.Fatalf("replayed %s", line)
			}
		}
	})
}

// keptLines are the lines that a replay repeats, in their order.
func keptLines(header []string) string {
	var kept []string
	for _, line := range header {
		name, _, _ := strings.Cut(line, ":")
		switch http.CanonicalHeaderKey(name) {
		case "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type",
			"Etag", "Last-Modified", "Link", "Location", "Vary", "Allow", "X-Content-Type-Options", "X-Kept", "Content-Length", "Transfer-Encoding", "Idempotency-Retention":
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func exchange(t *testing.T, addr net.Addr, request string) []byte {
	t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%v after %q", err, raw)
	}
	return raw
}
