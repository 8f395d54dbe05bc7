package oncehttp

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/store"
)

// recorder holds an answer until its operation has committed. For the handler it behaves like the ResponseWriter of net/http, but it cannot stream.
type recorder struct {
	plan               *plan
	header             http.Header
	status             int           // 0 before WriteHeader
	storedLines        []store.Field // the header lines that are stored, as they were at WriteHeader
	otherLines         []store.Field // the other header lines
	contentTypeSettled bool          // the content type need not be guessed
	length             string        // the Content-Length that the handler has set
	outerEncoding      []string      // the Content-Encoding that was set before the handler
	body               []byte

	refused         *refusal // the reason why the answer cannot be held back
	handlerReturned bool
}

var errClosed = errors.New("oncehttp: the handler has written to its response after it had returned")

var (
	_ http.Flusher  = (*recorder)(nil)
	_ http.Hijacker = (*recorder)(nil)
)

// Header implements [http.ResponseWriter].
func (rec *recorder) Header() http.Header { return rec.header }

// WriteHeader implements [http.ResponseWriter]. As in net/http, only the first call has an effect. After that call, changes of the header are
// ignored. Informational answers (1xx) are not sent.
func (rec *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("oncehttp: invalid WriteHeader code %v", status))
	case rec.status != 0:
		return
	case status == http.StatusSwitchingProtocols:
		rec.refused = errStreamed
	// An informational answer cannot be sent before the commit.
	case status < 200:
		return
	}
	rec.status = status
	rec.freezeHeader()
}

// freezeHeader copies the header lines. Later changes of the header have no effect, as in net/http.
func (rec *recorder) freezeHeader() {
	rec.storedLines = make([]store.Field, 0, len(rec.header)+1)
	for name, values := range rec.header {
		standard := http.CanonicalHeaderKey(name)
		switch standard {
		// The length is set again when the answer is sent.
		case "Content-Length":
			rec.length = first(values)
			continue
		// The answer is sent in one piece, so these headers would be wrong.
		case "Transfer-Encoding", "Trailer":
			continue
		case "Content-Type":
			rec.contentTypeSettled = rec.contentTypeSettled || name == standard
			// A client of such an answer expects events while the handler runs.
			if strings.HasPrefix(first(values), "text/event-stream") {
				rec.refused = errStreamed
			}
		case "Content-Encoding":
			values = rec.handlerEncoding(name, values)
			rec.contentTypeSettled = rec.contentTypeSettled || first(values) != ""
		}
		lines := &rec.otherLines
		switch {
		// A handler must not say how its request was handled, and trailers are not sent.
		case rec.plan.isAnswerHeader(standard), strings.HasPrefix(name, http.TrailerPrefix):
			continue
		case rec.plan.storedHeaders[standard]:
			lines = &rec.storedLines
		}
		for _, v := range values {
			*lines = append(*lines, store.Field{Name: name, Value: oneLine(v)})
		}
	}
}

// handlerEncoding returns the part of a Content-Encoding that the handler has set. Outer middleware has set the other values. It encodes the body of
// each answer again, including replays, so these values are not stored.
func (rec *recorder) handlerEncoding(name string, values []string) []string {
	n := len(rec.outerEncoding)
	if n == 0 || len(values) < n || !slices.Equal(values[:n], rec.outerEncoding) {
		return values
	}
	for _, v := range rec.outerEncoding {
		rec.otherLines = append(rec.otherLines, store.Field{Name: name, Value: v})
	}
	return values[n:]
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// oneLine returns a header value in one line, as net/http sends it.
func oneLine(v string) string {
	if strings.ContainsAny(v, "\r\n") {
		v = newlines.Replace(v)
	}
	return v
}

var newlines = strings.NewReplacer("\r", " ", "\n", " ")

// Write implements [http.ResponseWriter].
func (rec *recorder) Write(p []byte) (int, error) {
	if err := rec.mayWrite(len(p)); err != nil || len(p) == 0 {
		return 0, err
	}
	rec.body = append(rec.body, p...)
	return len(p), nil
}

// WriteString implements [io.StringWriter].
func (rec *recorder) WriteString(s string) (int, error) {
	if err := rec.mayWrite(len(s)); err != nil || s == "" {
		return 0, err
	}
	rec.body = append(rec.body, s...)
	return len(s), nil
}

// mayWrite returns an error if n more bytes cannot be written.
func (rec *recorder) mayWrite(n int) error {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	switch {
	case rec.handlerReturned:
		return errClosed
	case rec.refused != nil:
		return rec.refused
	case n > 0 && !bodyAllowed(rec.status):
		return http.ErrBodyNotAllowed
	case int64(len(rec.body))+int64(n) > rec.plan.MaxResponse:
		// The answer can never be sent, so its memory is free.
		rec.refused, rec.body = errTooLarge, nil
		return rec.refused
	}
	return nil
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Flush implements [http.Flusher]. The answer is still held back.
func (rec *recorder) Flush() { _ = rec.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (rec *recorder) FlushError() error { return rec.mayWrite(0) }

// Hijack implements [http.Hijacker]. It always returns an error.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, notSupported("Hijack")
}

// SetReadDeadline returns an error, because the request has already been read.
func (rec *recorder) SetReadDeadline(time.Time) error { return notSupported("SetReadDeadline") }

// SetWriteDeadline returns an error, because the answer is written to memory.
func (rec *recorder) SetWriteDeadline(time.Time) error { return notSupported("SetWriteDeadline") }

// EnableFullDuplex returns an error: the request has already been read, and the answer is sent after the commit.
func (rec *recorder) EnableFullDuplex() error { return notSupported("EnableFullDuplex") }

func notSupported(method string) error {
	return fmt.Errorf("oncehttp: %s is not possible, because the answer of a protected handler is sent only after the commit: %w", method, http.ErrNotSupported)
}

// finish completes the answer after the handler has returned.
func (rec *recorder) finish() {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	// http.TimeoutHandler may have left the handler running, and its later writes must fail.
	rec.handlerReturned = true
	if len(rec.body) > 0 && !rec.contentTypeSettled {
		rec.storedLines = append(rec.storedLines, store.Field{Name: "Content-Type", Value: http.DetectContentType(rec.body)})
	}
	if len(rec.storedLines) > 1 {
		// A map has no order. The sort makes the stored form of the same answer the same each time.
		slices.SortStableFunc(rec.storedLines, func(a, b store.Field) int { return strings.Compare(a.Name, b.Name) })
	}
}

// size returns the stored size of the answer.
func (rec *recorder) size() int64 {
	n := len(rec.body)
	for _, f := range rec.storedLines {
		n += len(f.Name) + len(f.Value) + len(": \n")
	}
	return int64(n)
}
