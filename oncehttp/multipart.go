package oncehttp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/fingerprint"
)

// withoutBoundary removes the boundary from a multipart body and its content type, because clients choose a new boundary for each attempt. The parts
// become a list, so that they stay separate. A body in which the boundary also occurs inside a part stays unchanged, because programs disagree about
// where this part ends.
func withoutBoundary(contentType string, body []byte) (string, [][]byte) {
	mediaType, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	if err != nil || boundary == "" {
		return contentType, nil
	}
	opening := []byte("--" + boundary)
	rest, opens := bytes.CutPrefix(body, opening)
	delimiter := append([]byte("\r\n"), opening...)
	parts := bytes.Split(rest, delimiter)
	opens = opens && bytes.Count(rest, delimiter[1:]) == len(parts)-1 // a boundary after a LF without CR is not a delimiter for all programs
	for _, part := range parts {
		opens = opens && followsDelimiter(part)
	}
	if !opens {
		return contentType, nil
	}
	delete(params, "boundary") // the other parameters say what the parts mean
	return mime.FormatMediaType(mediaType, params), parts
}

// followsDelimiter reports whether rest may follow a delimiter (RFC 2046, section 5.1.1). After a delimiter come padding and the end of the line.
// After the last delimiter comes "--" first.
func followsDelimiter(rest []byte) bool {
	rest, closes := bytes.CutPrefix(rest, []byte("--"))
	rest = bytes.TrimLeft(rest, " \t")
	return bytes.HasPrefix(rest, []byte("\r\n")) || closes && len(rest) == 0
}

// fingerprintFile returns the fingerprint of parts, the content type and a body in a file. It is the same fingerprint as for the same body in memory.
func fingerprintFile(file io.ReaderAt, size int64, contentType string, parts ...string) (once.Fingerprint, error) {
	m := multipartFile{file: file, size: size}
	if strings.HasPrefix(contentType, "multipart/") {
		var err error
		if contentType, err = m.withoutBoundary(contentType); err != nil {
			return once.Fingerprint{}, err
		}
	}
	h := fingerprint.New()
	for _, p := range append(parts, contentType) {
		h.Part([]byte(p))
	}
	err := m.pieces(func(from, to int64) error { return h.PartOf(io.NewSectionReader(file, from, to-from), to-from) })
	return h.Sum(), err
}

// multipartFile is a multipart body in a file. Each call searches the positions of the parts again, so that the memory stays small.
type multipartFile struct {
	file    io.ReaderAt
	size    int64
	opening string // "" if the body is one piece
}

// withoutBoundary does the work of the function withoutBoundary for a file.
func (m *multipartFile) withoutBoundary(contentType string) (string, error) {
	mediaType, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	if err != nil || boundary == "" {
		return contentType, nil //nolint:nilerr // not a multipart type, so the body is one piece
	}
	m.opening = "--" + boundary
	first := make([]byte, len(m.opening))
	if _, err := m.file.ReadAt(first, 0); err != nil && !errors.Is(err, io.EOF) {
		return contentType, err
	}
	opens := string(first) == m.opening
	if opens {
		err = m.pieces(func(from, to int64) error {
			follows, err := followsDelimiterIn(io.NewSectionReader(m.file, from, to-from))
			if opens = follows; !opens && err == nil {
				err = errNotMultipart
			}
			return err
		})
	}
	// Programs would read such a body in different ways, so it is compared as one piece.
	if errors.Is(err, errNotMultipart) || !opens {
		m.opening = ""
		return contentType, nil
	}
	delete(params, "boundary") // the other parameters say what the parts mean
	return mime.FormatMediaType(mediaType, params), err
}

var errNotMultipart = errors.New("oncehttp: the body contains the boundary of the multipart form at a place where it does not separate two parts")

// pieces calls do with the beginning and the end of each part. A boundary after a LF without CR is an error.
func (m *multipartFile) pieces(do func(from, to int64) error) error {
	if m.opening == "" {
		return do(0, m.size)
	}
	delimiter := "\r\n" + m.opening
	from := int64(len(m.opening))
	err := m.find(from, []byte(delimiter[1:]), func(at int64) error {
		if cr := at - 1; !m.isCR(from, cr) {
			return errNotMultipart
		}
		err := do(from, at-1)
		from = at + int64(len(delimiter)) - 1
		return err
	})
	if err != nil {
		return err
	}
	return do(from, m.size)
}

// isCR reports whether the byte at a position is CR, and the position is not before from.
func (m *multipartFile) isCR(from, at int64) bool {
	var b [1]byte
	n, _ := m.file.ReadAt(b[:], at)
	return at >= from && n == 1 && b[0] == '\r'
}

// find calls do with each position of text after from, in order.
func (m *multipartFile) find(from int64, text []byte, do func(at int64) error) error {
	buf := make([]byte, max(firstRead, 2*len(text)))
	for {
		n, err := m.file.ReadAt(buf[:min(int64(len(buf)), m.size-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		seen := 0
		for {
			i := bytes.Index(buf[seen:n], text)
			if i < 0 {
				break
			}
			if err := do(from + int64(seen+i)); err != nil {
				return err
			}
			seen += i + len(text)
		}
		if from+int64(n) >= m.size {
			return nil
		}
		from += int64(max(seen, n-len(text)+1)) // text may begin in the last bytes of the buffer
	}
}

// followsDelimiterIn does the work of followsDelimiter for a reader.
func followsDelimiterIn(part io.Reader) (bool, error) {
	r := bufio.NewReader(part)
	closes := false
	if head, _ := r.Peek(2); string(head) == "--" {
		closes = true
		_, _ = r.Discard(2)
	}
	for {
		b, err := r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return closes, nil
		case err != nil:
			return false, err
		case b == '\r':
			next, err := r.ReadByte()
			return err == nil && next == '\n', nil
		case b != ' ' && b != '\t':
			return false, nil
		}
	}
}
