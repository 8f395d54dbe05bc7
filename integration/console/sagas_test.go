package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// sagaNames are those of the sagas of a tenant, for each of which something can be done.
var sagaNames = []string{"retry", "force", "skip", "cancel", "wake", "forget"}

// furnishSagas adds sagas in each state, as package saga stores them.
func (g *fixture) furnishSagas(t *testing.T) {
	t.Helper()
	data := func(stuck string, turned bool, steps ...map[string]any) []byte {
		of := map[string]any{"definition": "d", "input": json.RawMessage(secretBody), "steps": steps}
		if stuck != "" {
			of["stuck"] = stuck
		}
		if turned {
			of["turn"] = map[string]any{"cause": map[string]any{"code": nasty, "message": nasty}}
		}
		b, err := json.Marshal(of)
		harness.Must(t, err)
		return b
	}
	reserved := map[string]any{"name": "reserve", "state": "done", "undo": true, "input": json.RawMessage(secretBody), "result": json.RawMessage(secretBody), "events": []string{messageID}}
	charging := map[string]any{"name": "charge", "state": "calling", "input": json.RawMessage(secretBody), "call": map[string]any{"check": true}}
	refused := map[string]any{"name": "pay", "state": "failed", "failure": map[string]any{"code": nasty, "message": nasty}}
	for name, of := range map[string]struct {
		state int64
		data  []byte
	}{
		"retry": {3, data(nasty, false, reserved, charging)}, "force": {3, data("the call was not answered", false, reserved, charging)}, "skip": {3, data("the undo says no", true, reserved, refused)},
		"cancel": {4, data("", false, reserved)}, "wake": {4, data("", false, reserved)}, "forget": {2, data("", false, reserved)}, nasty: {2, data("", true, refused)},
	} {
		g.saga(t, "acme", name, of.state, of.data)
	}
	g.saga(t, "globex", "retry", 3, data("no", false, charging))
}

func (g *fixture) saga(t *testing.T, tenant, name string, state int64, data []byte) {
	t.Helper()
	g.exec(t, "insert into once_operation (scope, KEY, state, fence, claim, status, kind, data, since, expires_at, name) values (?, ?, ?, 1, ?, 0, 0, ?, NOW, null, ?)", "saga/"+tenant, secretKey+name, state, []byte{1}, data, name)
}

// isSaga counts the sagas of a tenant with a name for which a condition holds.
func isSaga(name, condition string) string {
	return "select count(*) from once_operation where scope = 'saga/acme' and name = '" + name + "' and " + condition
}

var stepLinks = regexp.MustCompile(`do\?action=saga-(?:force|skip)&amp;id=[^&]*&amp;step=([A-Za-z0-9_-]+)`)

// stepOf returns the link of the step that can be decided about.
func (g *fixture) stepOf(t *testing.T, name string) string {
	t.Helper()
	m := stepLinks.FindStringSubmatch(g.get(t, "ada", "saga?id="+g.sagaLink(t, "sagas?tenant=acme&name="+name)).body)
	if m == nil {
		t.Fatalf("no step of %s can be decided about", name)
	}
	return m[1]
}

// sagaActionCases are the actions on sagas.
func (g *fixture) sagaActionCases(t *testing.T) map[string]actionCase {
	t.Helper()
	of := func(name string, more ...string) url.Values {
		form := url.Values{"id": {g.sagaLink(t, "sagas?tenant=acme&name="+name)}, "fence": {"1"}}
		for i := 0; i+1 < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return form
	}
	return map[string]actionCase{
		"saga-retry":  {of("retry"), isSaga("retry", "state = 4")},
		"saga-force":  {of("force", "step", g.stepOf(t, "force"), "way", "happened", "value", `{"id": 1}`), isSaga("force", "state = 4")},
		"saga-skip":   {of("skip", "step", g.stepOf(t, "skip")), isSaga("skip", "state = 4")},
		"saga-cancel": {of("cancel"), isSaga("cancel", "point = 'turned'")},
		"saga-wake":   {of("wake"), isSaga("wake", "fence = 2")},
		"saga-forget": {of("forget"), isSaga("forget", "kind = 2")},
	}
}

// TestSagasAreListedAndDecided: the list has filters, the page of a saga says why it is stuck, what its provider can be asked and what can be decided, and shows keys, inputs and results
// to an operator who asks. What a form lacks is told, and nothing is decided then.
func TestSagasAreListedAndDecided(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		for path, want := range map[string]int{"sagas?tenant=acme": 7, "sagas?tenant=globex": 1, "sagas?state=stuck": 4, "sagas?state=stuck&tenant=acme": 3, "sagas?state=waiting": 2, "sagas?name=retry": 2, "sagas?name=none": 0, "sagas?state=completed&since=1h": 2, "sagas?state=compensated": 0} {
			if p := g.get(t, "vic", path); p.status != http.StatusOK || strings.Count(p.body, "saga?id=") != want {
				t.Errorf("%s: %d, %d sagas, want %d", path, p.status, strings.Count(p.body, "saga?id="), want)
			}
		}
		for _, path := range []string{"sagas?state=lost", "saga?id=x", "saga?id=" + g.operationLink(t, "operations?state=done"), "sagas?after=x"} {
			if p := g.get(t, "ada", path); p.status != http.StatusNotFound {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
		}
		id := g.sagaLink(t, "sagas?tenant=acme&name=force")
		p := g.get(t, "ada", "saga?id="+id)
		for _, says := range []string{"the call was not answered", "The program can ask the service", "action=saga-retry", "action=saga-force", "action=saga-cancel", "event?id=" + messageID} {
			if !strings.Contains(p.body, says) {
				t.Errorf("the page does not say %q: %s", says, p.body)
			}
		}
		if p := g.get(t, "vic", "saga?id="+id); p.status != http.StatusOK || strings.Contains(p.body, "action=saga") || strings.Contains(p.body, secretBody) {
			t.Errorf("for a viewer: %d: %s", p.status, p.body)
		}
		show := url.Values{"what": {"saga"}, "id": {id}}
		if p := g.post(t, "vic", "show", show); p.status != http.StatusForbidden || strings.Contains(p.body, secretBody) {
			t.Errorf("a viewer is shown it: %d", p.status)
		}
		const shows = "select count(*) from once_audit where action = 'show' and scope = 'saga/acme' and key_hash <> ''"
		if p := g.post(t, "ada", "show", show); p.status != http.StatusOK || strings.Count(p.body, secretBody) != 4 || !strings.Contains(p.body, "key-&lt;script&gt;") || g.count(t, shows) != 1 {
			t.Errorf("%d, %d entries of the audit: %s", p.status, g.count(t, shows), p.body)
		}
		form := g.formOf(t, "saga-force", url.Values{"id": {id}, "step": {g.stepOf(t, "force")}})
		for _, wrong := range []url.Values{{}, {"way": {"happened"}, "value": {"{"}}, {"way": {"perhaps"}}} {
			wrong.Set("action", "saga-force")
			wrong.Set("of", form.Get("of"))
			wrong.Set("reason", "because")
			if p := g.post(t, "ada", "do", wrong); p.status != http.StatusConflict || g.count(t, isSaga("force", "state = 3")) != 1 {
				t.Errorf("%v: %d: %s", wrong, p.status, p.body)
			}
		}
		if p := g.get(t, "ada", "do?action=saga-wake&id="+id); p.status != http.StatusConflict || strings.Contains(p.body, "key-") {
			t.Errorf("a saga that is stuck is woken: %d: %s", p.status, p.body)
		}
		g.exec(t, "drop table once_audit")
		if p := g.post(t, "ada", "show", show); p.status == http.StatusOK || strings.Contains(p.body, secretBody) {
			t.Errorf("shown without an audit: %d", p.status)
		}
	})
}
