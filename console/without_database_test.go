package console

// The tests with databases are in integration/console: "make test-of DIR=console" runs them after these.

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// ask sends a request that never comes as far as the database.
func ask(t *testing.T, cfg Config, method, path string, change func(*http.Request)) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}), method, path, http.NoBody)
	r.RemoteAddr, r.Host = "127.0.0.1:1234", "localhost"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	Handler(cfg).ServeHTTP(w, r)
	return w.Result()
}

// TestRequestsThatAreRefused: each comes no further than its refusal, which has the headers of every page. A database is not asked: there is none.
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	as := func(u User, err error) Config {
		return Config{User: func(*http.Request) (User, error) { return u, err }}
	}
	viewer, ofTenant := as(User{Name: "vic"}, nil), as(User{Name: "vic", Tenants: []string{"acme"}}, nil)
	for name, c := range map[string]struct {
		cfg          Config
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"this page does not exist":    {viewer, "GET", "/nowhere", nil, 404},
		"a path behind a page":        {viewer, "GET", "/operations/1", nil, 404},
		"no access":                   {as(User{}, errors.New("who is it?")), "GET", "/operations", nil, 403},
		"an operator without a name":  {as(User{Role: RoleOperator}, nil), "GET", "/operations", nil, 403},
		"an action for a viewer":      {viewer, "GET", "/do?action=forget", nil, 403},
		"an action that is none":      {viewer, "GET", "/do?action=dance", nil, 404},
		"the outbox, with a tenant":   {ofTenant, "GET", "/outbox", nil, 404},
		"another tenant":              {ofTenant, "GET", "/operations?tenant=globex", nil, 404},
		"a cursor that is none":       {viewer, "GET", "/operations?after=AAAA", nil, 404},
		"a state that is none":        {viewer, "GET", "/operations?state=lost", nil, 404},
		"a duration that is none":     {viewer, "GET", "/operations?since=soon", nil, 409},
		"another site":                {viewer, "POST", "/do", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"from afar, without users":    {Config{}, "GET", "/nowhere", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1234" }, 403},
		"another name, without users": {Config{}, "GET", "/nowhere", func(r *http.Request) { r.Host = "evil.example" }, 403},
		"by a proxy, without users":   {Config{}, "GET", "/nowhere", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, 403},
		"localhost, without users":    {Config{}, "GET", "/nowhere", nil, 404},
	} {
		resp := ask(t, c.cfg, c.method, c.path, c.change)
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
		for header, value := range headers {
			if resp.Header.Get(header) != value {
				t.Errorf("%s: %s is %q", name, header, resp.Header.Get(header))
			}
		}
		_ = resp.Body.Close()
	}
}

// TestPathsUnderAPrefix: style and script are served, under the prefix and where a proxy has removed it; the prefix alone leads to its slash.
func TestPathsUnderAPrefix(t *testing.T) {
	t.Parallel()
	cfg := Config{Prefix: "/ops/once/"}
	for path, want := range map[string]int{
		"/console.css": 200, "/console.js": 200, "/ops/once/console.css": 200, "/ops/once": 303, "/ops/once/nowhere": 404, "/ops/oncefold/console.css": 404, "/page/layout.html": 404,
	} {
		resp := ask(t, cfg, "GET", path, nil)
		if resp.StatusCode != want || want == 303 && resp.Header.Get("Location") != "once/" {
			t.Errorf("%s: %d to %q, want %d", path, resp.StatusCode, resp.Header.Get("Location"), want)
		}
		_ = resp.Body.Close()
	}
}

// rendered is a page of a model.
func rendered(t *testing.T, name string, p page) string {
	t.Helper()
	var b strings.Builder
	if err := parsePages()[name].ExecuteTemplate(&b, "layout.html", p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const markup = `<script>alert("1")</script>` + "\u202e\x1b[2J"

// TestPagesOfModelsAreEscaped: whatever a field has, the page has no markup of it and nothing that moves a cursor or turns the text around. A key is hidden.
func TestPagesOfModelsAreEscaped(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	op := operate.Operation{Scope: markup, Key: "key-" + markup, Name: markup, State: "done", Result: "value", Status: 201, ResultBytes: 12345, Since: now.Add(-90 * time.Second)}
	for name, c := range map[string]struct {
		body any
		want []string
	}{
		"operations": {operationsBody{Rows: []operationRow{{op, "operation?id=1"}}, Filter: url.Values{"name": {markup}}, States: states, Cut: true, Most: 2000, Next: "operations?after=x"}, []string{"HTTP 201", "12,345", "1 min ago", "reads the first 2,000 operations", "operations?after=x"}},
		"audit":      {auditBody{Rows: []operate.Entry{{At: now, Who: markup, Action: "forget", Reason: markup, Detail: markup}}}, []string{"forget"}},
		"attempts":   {attemptsBody{Outcomes: outcomes}, []string{"executed"}},
		"topics":     {topicsBody{Rows: []topicRow{{Name: markup}}}, []string{"nothing"}},
		"help":       {actions(), []string{"once keys forget"}},
		"error":      {problem{What: markup, Try: "once migrate up", Again: true}, []string{"once migrate up", `http-equiv="refresh"`}},
	} {
		got := rendered(t, name, page{Title: "Title", User: User{Name: markup}, All: true, Now: now, Body: c.body})
		for _, bad := range []string{"<script>alert", "\u202e", "\x1b", "key-"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s has no %q:\n%s", name, want, got)
			}
		}
	}
}

// TestActionsAreShownToOperatorsOnly: the page of topics has the buttons of its actions for an operator, and no others.
func TestActionsAreShownToOperatorsOnly(t *testing.T) {
	t.Parallel()
	body := topicsBody{Rows: []topicRow{{Name: "refunds"}}}
	for _, operator := range []bool{true, false} {
		if got := rendered(t, "topics", page{Operator: operator, All: true, Body: body}); strings.Contains(got, "do?action=pause") != operator {
			t.Errorf("operator %v:\n%s", operator, got)
		}
	}
}

// TestPayloadsAsText: JSON keeps every digit and gets line breaks, bytes that are no text are quoted, and a large payload is cut.
func TestPayloadsAsText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":12345678901234567890.10}`: "{\n  \"a\": 12345678901234567890.10\n}",
		"a\r\nb\tc":                     "a\nb\tc",
		"\x1b[2J":                       "\uFFFD[2J",
		"\xff\x00":                      `"\xff\x00"`,
		"":                              "",
	} {
		if got := printed([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	large := strings.Repeat("é", mostShown)
	if got := printed([]byte(large)); !strings.HasSuffix(got, "é\n(the first 65,536 of 131,072 bytes)") || strings.Contains(got, "\\x") {
		t.Errorf("%q", got[len(got)-100:])
	}
	if got := printed([]byte("x" + large)); !strings.HasPrefix(got, "xé") || !strings.HasSuffix(got, "é\n(the first 65,536 of 131,073 bytes)") {
		t.Errorf("cut inside a character: %q ... %q", got[:20], got[len(got)-100:])
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := many(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}

// TestMomentsAsPeopleSayThem: a time is shown with how far it is from the clock of the database; a time that is not set is nothing.
func TestMomentsAsPeopleSayThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := now.Add(3 * time.Minute)
	for _, c := range []struct {
		at   any
		want moment
	}{
		{now.Add(-2 * time.Hour), moment{"2026-01-02T01:04:05Z", "2 h 0 min ago"}},
		{&later, moment{"2026-01-02T03:07:05Z", "in 3 min"}},
		{time.Time{}, moment{}},
		{(*time.Time)(nil), moment{}},
	} {
		if got := (page{Now: now}).At(c.at); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.at, got, c.want)
		}
	}
}

// TestKeysInLinksAreSealed: a link names an operation and does not show it; it opens with the same secret, as the same kind and whole.
func TestKeysInLinksAreSealed(t *testing.T) {
	t.Parallel()
	s, other := newSealer([]byte("secret")), newSealer(nil)
	for _, id := range []store.ID{{Scope: "acme POST /refunds", Key: "key-1"}, {Key: "k"}, {Scope: "1 2", Key: " 3"}, {Scope: "\xff", Key: "\x00"}} {
		sealed := s.operation(id)
		if got, ok := newSealer([]byte("secret")).openOperation(sealed); !ok || got != id || sealed != s.operation(id) {
			t.Errorf("%+v: %+v, %v", id, got, ok)
		}
		if strings.Contains(sealed, "key") || url.QueryEscape(sealed) != sealed {
			t.Errorf("%+v shows in %s", id, sealed)
		}
		for _, wrong := range []string{"", "x", sealed[1:], sealed[:len(sealed)-1], sealed + "A", s.seal(sealedKey, "1 ab")} {
			if got, ok := s.openOperation(wrong); ok {
				t.Errorf("%s is opened as %+v", wrong, got)
			}
		}
		if _, ok := other.openOperation(sealed); ok {
			t.Error("another process opens it with a secret of its own")
		}
	}
	if text, ok := s.open(sealedCursor, ""); !ok || text != "" || s.seal(sealedCursor, "") != "" {
		t.Error("no cursor is not the first page")
	}
	if got := link("messages", "topic", "a&b", "after", ""); got != "messages?topic=a%26b" || link("messages", "after", "") != "messages" {
		t.Error(got)
	}
}
