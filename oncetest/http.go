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

// Service is a service over HTTP.
type Service struct {
	// Start starts the service, as main does, on the connections of a process. It is called again after each death of the process. Make here
	// everything that the service keeps in memory, and elsewhere everything that outlives a process: files, databases, a [Provider].
	Start func(p *Process) http.Handler

	// Request makes a request that takes effect, without a key. All requests that it makes must be alike.
	Request func() *http.Request

	// Other makes a request that takes effect as well, and asks for something else, for [FaultMismatch]. Default: Request with another digit in its body, or
	// another letter where it has no digit.
	Other func() *http.Request

	// Header is the name of the header for keys. Default: Idempotency-Key.
	Header string

	Database sqlplane.Database     // in which effects are counted; default: the database of the first [Store] of a process
	Count    map[string]func() int // counters of effects elsewhere, mails for example
	Ignore   []string              // "table" or "table.column": no effects, an access log for example
	Skip     []Fault               // faults that are not tried
}

// HTTP tests a service. Each request has a new key, and retries have the key of their request. An answer is final unless its status is 5xx, 408, 409, 425
// or 429.
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

// request is a request that can be sent several times.
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
		if r := recover(); r != nil { // as a server does, which cuts the connection
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

// anotherBody changes a digit of a body, or else a letter. ok is false if the body has neither.
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
