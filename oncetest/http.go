package oncetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlplane"
)

// Service describes an [HTTP] service that the function [HTTP] tests.
type Service struct {
	// Start starts the service, as the main function of the service does. Start opens all connections of the service with methods of p. Start is
	// called again after each death of the process. Create all objects that the service keeps in memory in Start. Create objects that outlive a
	// process, such as a file, a database or a [Provider], outside of Start.
	Start func(p *Process) http.Handler

	// Request returns a request that takes effect. The request has no key; the test adds a key. All requests that Request returns must be
	// equal.
	Request func() *http.Request

	// Other returns a request that also takes effect, but is different from the result of Request. For [FaultMismatch] the test sends the request
	// that Other returns. Default: the result of Request with one digit of its body changed, or with one letter changed if the body has no digit.
	Other func() *http.Request

	// Header is the name of the header that carries the key. Default: Idempotency-Key.
	Header string

	Database sqlplane.Database     // the database in which effects are counted; default: the database of the first [Store] of a process
	Count    map[string]func() int // functions that count effects outside of the database, such as mails
	Ignore   []string              // tables ("table") or columns ("table.column") whose changes are not effects, such as an access log
	Skip     []Fault               // the faults that are not tried
}

// HTTP tests the service that s describes: see the package documentation. Each new request has a new key, and its retries have the same key. An
// answer is final unless its status is 5xx, 408, 409, 425 or 429.
func HTTP(t testing.TB, s Service) {
	t.Helper()
	tests := suite{settings: settings{s.Database, s.Count, s.Ignore, s.Skip}, tb: t}
	tests.start = func(p *Process) func(context.Context, intent) answer {
		h := s.Start(p)
		return func(ctx context.Context, in intent) answer { return serve(ctx, h, in) }
	}
	intend := func(key string, from func() *http.Request) intent {
		r, err := recorded(from())
		if err != nil {
			tests.now.Fatalf("oncetest: the body of the request cannot be read: %v", err)
		}
		r.header.Set(cmp.Or(s.Header, "Idempotency-Key"), key)
		return intent{key: key, request: r}
	}
	tests.intend = func() intent { return intend(once.NewKey(), s.Request) }
	tests.differ = func(in intent) (other intent, ok bool) {
		if s.Other != nil {
			return intend(in.key, s.Other), true
		}
		r, _ := in.request.(*request)
		changed := *r
		changed.body, ok = anotherBody(r.body)
		in.request = &changed
		return in, ok
	}
	tests.run()
}

// request is a request that the test can send several times.
type request struct {
	*http.Request

	header http.Header
	body   []byte
}

func recorded(r *http.Request) (*request, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	return &request{r, r.Header, body}, nil
}

// serve sends a request to a handler.
func serve(ctx context.Context, h http.Handler, in intent) (a answer) {
	defer func() {
		if r := recover(); r != nil { // a server recovers as well, and cuts the connection
			a = answer{text: fmt.Sprint("by a panic: ", r)}
		}
	}()
	from, ok := in.request.(*request)
	if !ok {
		return answer{text: "by nothing"}
	}
	r := from.Clone(ctx)
	r.Header = from.header.Clone()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(from.body)), int64(len(from.body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	status, body := w.Code, w.Body.Bytes()
	a.success = status >= 200 && status < 400
	a.final = a.success || status < 500 && !slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests}, status)
	a.kind = fmt.Sprint(status)
	a.text = a.kind
	for _, name := range []string{"Content-Type", "Location"} {
		if v := w.Header().Get(name); v != "" {
			a.text += " " + v
		}
	}
	a.text += " " + string(body)
	return a
}

// anotherBody returns a body with another digit or, if it has no digit, another letter. ok is false if the body has neither.
func anotherBody(body []byte) (changed []byte, ok bool) {
	for _, in := range []string{"0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if at := bytes.LastIndexAny(body, in); at >= 0 {
			changed = bytes.Clone(body)
			if changed[at]++; !strings.ContainsRune(in, rune(changed[at])) {
				changed[at] -= 2
			}
			return changed, true
		}
	}
	return nil, false
}
