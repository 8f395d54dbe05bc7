package console_test

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// formOf returns the form of an action, with what it says.
func (g *fixture) formOf(t *testing.T, action string, about url.Values) url.Values {
	t.Helper()
	about.Set("action", action)
	p := g.get(t, "ada", "do?"+about.Encode())
	_, of, _ := strings.Cut(p.body, `name="of" value="`)
	of, _, ok := strings.Cut(of, `"`)
	if p.status != http.StatusOK || !ok {
		t.Fatalf("%s: %d: %s", action, p.status, p.body)
	}
	return url.Values{"action": {action}, "of": {html.UnescapeString(of)}, "reason": {"found out"}}
}

var redrives = regexp.MustCompile(`action=cancel&amp;uid=([^"]*)"`)

// TestDecideAnUnknownOutcome: an unknown outcome is decided by a form that says what has become of it, and a redrive is cancelled. What the form lacks is told, and
// nothing is decided then.
func TestDecideAnUnknownOutcome(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		const unknown = "select count(*) from once_operation where state = 3 and scope not like 'saga/%'"
		form := g.formOf(t, "resolve", url.Values{"id": {g.operationLink(t, "operations?state=unknown&scope=acme")}})
		for _, wrong := range []url.Values{{}, {"way": {"result"}, "value": {"{"}}, {"way": {"result"}, "value": {"1"}, "status": {"99"}}, {"way": {"failed"}, "value": {"no"}, "status": {"201"}}, {"way": {"call-result"}}} {
			maps.Copy(wrong, form)
			if p := g.post(t, "ada", "do", wrong); p.status != http.StatusConflict || g.count(t, unknown) != 2 {
				t.Errorf("%v: %d: %s", wrong, p.status, p.body)
			}
		}
		form.Set("way", "result")
		form.Set("value", `{"id": 1}`)
		form.Set("status", "201")
		p := g.post(t, "ada", "do", form)
		if n := g.count(t, "select count(*) from once_operation where state = 2 and status = 201 and scope = 'acme POST /refunds' and KEY = 'unknown'"); p.status != http.StatusSeeOther || n != 1 {
			t.Errorf("a result: %d, %d rows: %s", p.status, n, p.body)
		}
		form = g.formOf(t, "resolve", url.Values{"id": {g.operationLink(t, "operations?state=unknown")}})
		form.Set("way", "run-again")
		if p := g.post(t, "ada", "do", form); p.status != http.StatusSeeOther || g.count(t, unknown) != 0 || g.count(t, "select count(*) from once_operation where scope not like 'saga/%'") != 2 {
			t.Errorf("run again: %d: %s", p.status, p.body)
		}
		if n := g.count(t, "select count(*) from once_audit where action = 'resolve' and who = 'ada' and reason = 'found out'"); n != 2 {
			t.Errorf("%d entries in the audit", n)
		}
		p = g.post(t, "ada", "do", g.formOf(t, "redrive", url.Values{"origin": {"inbox"}}))
		m := redrives.FindStringSubmatch(g.get(t, "ada", p.header.Get("Location")).body)
		if p.status != http.StatusSeeOther || m == nil {
			t.Fatalf("the redrive is not shown: %d to %s", p.status, p.header.Get("Location"))
		}
		if p := g.post(t, "ada", "do", g.formOf(t, "cancel", url.Values{"uid": {m[1]}})); p.status != http.StatusSeeOther || g.count(t, "select count(*) from once_deadletter_redrive where state = 'cancelled'") != 1 {
			t.Errorf("%d: %s", p.status, p.body)
		}
	})
}
