package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// pages has the templates by name.
type pages map[string]*template.Template

func parsePages() pages {
	names, err := fs.Glob(files, "page/*.html")
	if err != nil {
		panic(err)
	}
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(files, "page/layout.html"))
	all := pages{}
	for _, name := range names {
		all[strings.TrimSuffix(strings.TrimPrefix(name, "page/"), ".html")] = template.Must(template.Must(layout.Clone()).ParseFS(files, name))
	}
	return all
}

var functions = template.FuncMap{
	"shown": words.Shown, "orDash": words.OrDash, "many": many, "hash": keyname.Hash, "body": printed, "harmless": harmless, "words": func(s any) string { return words.Shown(strings.ReplaceAll(fmt.Sprint(s), "_", " ")) }, "bytes": func(n int64) string { return many(n) + " bytes" },
}

// many returns a number with commas between groups of three digits.
func many(n any) string {
	var s string
	switch n := n.(type) {
	case int:
		s = strconv.Itoa(n)
	case int64:
		s = strconv.FormatInt(n, 10)
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// mostShown is how many bytes of a payload or an answer a page shows.
const mostShown = 64 << 10

// printed returns a payload as text without control characters. JSON gets line breaks, and keeps all digits of its numbers.
func printed(b []byte) string {
	cut := ""
	var indented bytes.Buffer
	// A longer payload is cut below. A part of a JSON text is not JSON.
	if len(b) <= mostShown && json.Indent(&indented, b, "", "  ") == nil {
		b = indented.Bytes()
	}
	if len(b) > mostShown {
		cut = "\n(the first " + many(mostShown) + " of " + many(len(b)) + " bytes)"
		b = b[:mostShown]
		for range utf8.UTFMax - 1 { // the cut may have split a character
			if r, size := utf8.DecodeLastRune(b); r != utf8.RuneError || size != 1 {
				break
			}
			b = b[:len(b)-1]
		}
	}
	if !utf8.Valid(b) {
		return strconv.QuoteToASCII(string(b)) + cut
	}
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		lines[i] = harmless(strings.TrimSuffix(line, "\r"))
	}
	return strings.Join(lines, "\n") + cut
}

// harmless returns a text without control characters, and without characters that reverse the direction of text.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// page is the data of a template.
type page struct {
	Title, Nav string
	User       User
	Operator   bool
	All        bool // the user sees data that belongs to no tenant
	Seen       bool
	Now        time.Time // the time of the database
	Live       bool      // the page reloads itself
	Done       string    // the action that was done before this page
	Body       any
}

// moment is a time, and its distance from now in words.
type moment struct{ ISO, Far string }

// At returns a time for the template "time".
func (p page) At(t any) moment {
	var at time.Time
	switch t := t.(type) {
	case time.Time:
		at = t
	case *time.Time:
		if t != nil {
			at = *t
		}
	}
	if at.IsZero() {
		return moment{}
	}
	far := p.Now.Sub(at)
	if far < 0 {
		return moment{at.UTC().Format(time.RFC3339Nano), "in " + words.Span(-far)}
	}
	return moment{at.UTC().Format(time.RFC3339Nano), words.Span(far) + " ago"}
}

// With returns the same page with another body, for a nested template.
func (p page) With(body any) page { p.Body = body; return p }

// Age returns the age d in words, for people.
func (page) Age(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return words.Span(d)
}

// render answers with a page.
func (q *request) render(name, title string, body any) error {
	now, err := q.Operate.Keys.Now(q.ctx)
	if err != nil {
		return err
	}
	live := map[string]bool{
		"overview": true, "operations": true, "topics": true, "messages": true, "causes": true, "redrive": true, "attempts": true, "endpoints": true, "endpoint": true, "delivery": true, "sagas": true, "saga": true,
		"inboxes": true, "inbox": true,
	}
	nav := name
	if parent, ok := map[string]string{
		"operation": "operations", "topics": "outbox", "messages": "outbox", "message": "outbox", "event": "outbox", "attempts": "overview", "endpoint": "endpoints", "delivery": "endpoints", "saga": "sagas",
		"causes": "letters", "letter": "letters", "redrive": "letters", "inbox": "inboxes", "place": "inboxes",
	}[name]; ok {
		nav = parent
	}
	done, _ := actionOf(q.URL.Query().Get("done"))
	return q.write(http.StatusOK, name, page{
		Done: done.Title,
		// A page with hidden data does not reload itself, because the reload would hide the data again.
		Title: title, Nav: nav, User: q.user, Operator: q.user.Role == RoleOperator, All: q.user.Tenants == nil, Seen: q.seen, Now: now, Live: live[name] && !q.seen, Body: body,
	})
}

func (q *request) write(status int, name string, p page) error {
	var b bytes.Buffer
	if err := q.pages[name].ExecuteTemplate(&b, "layout.html", p); err != nil {
		return err
	}
	// The page needs the database no more, and the browser may read its answer slowly.
	if q.free != nil {
		q.free()
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = b.WriteTo(q.w) // an error is ignored: the browser has disconnected
	return nil
}

// problem is the content of an error page.
type problem struct {
	What, Try string
	Again     bool // the error may be temporary
}

// fail answers with the page of an error.
func (q *request) fail(err error) {
	status, p := http.StatusInternalServerError, problem{}
	missing := sqlguard.IsMissing(err)
	switch kind := store.KindOf(err); {
	case errors.Is(err, errNotFound):
		status = http.StatusNotFound
	case errors.Is(err, errRole), errors.Is(err, errAccess), errors.Is(err, errLoopback), errors.Is(err, errOrigin):
		status = http.StatusForbidden
	case errors.As(err, new(*refusal)):
		status = http.StatusConflict
	case errors.Is(err, errBusy), errors.Is(err, context.DeadlineExceeded), kind == store.KindUnavailable, kind == store.KindLost, kind == store.KindRetry:
		// A change is not offered again: it may have been committed although its answer was lost.
		status, p.Again = http.StatusServiceUnavailable, q.Method != http.MethodPost
	}
	p.What, p.Try = words.Advice(sqlguard.Said(err).Error())
	switch {
	case missing:
		p = problem{What: "The database does not have the tables that this page needs. Try: once migrate up", Try: "once migrate up"}
	case errors.Is(err, context.DeadlineExceeded):
		p.What = "The database has not answered in time for this page. Try: load the page again in a moment"
	case status >= http.StatusInternalServerError && q.user.Tenants != nil: // the error may quote rows of other tenants
		p.What, p.Try = "The database has answered with an error.", ""
	}
	if err := q.write(status, "error", page{Title: http.StatusText(status), User: q.user, All: q.user.Tenants == nil, Body: p}); err != nil {
		http.Error(q.w, http.StatusText(status), status)
	}
}

// refuse answers a request whose user is not known or has no access.
func (c *console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	// The list of tenants is empty and not nil, because nil would mean a user who sees all data.
	(&request{console: c, Request: r, w: w, user: User{Tenants: []string{}}}).fail(err)
}

// refusal is an error that tells an operator why a change was not made.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// redirect sends the browser to another page of the console. The path is relative, so it is right also if a proxy has changed the path of the
// request.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// link returns a path of the console with values. It leaves out empty values.
func link(path string, values ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(values); i += 2 {
		if values[i+1] != "" {
			q.Set(values[i], values[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
