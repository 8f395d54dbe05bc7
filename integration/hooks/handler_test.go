package hooks

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
)

// tenants is the API of tenants behind a service's authentication: the header User.
type tenants struct{ http.Handler }

func tenantsOf[TX any](hooks *webhook.Hooks[TX]) tenants {
	mux := http.NewServeMux()
	mux.Handle("/hooks/", hooks.Handler("/hooks", func(r *http.Request) string { return r.Header.Get("User") }))
	return tenants{mux}
}

// ask makes a request of a tenant, and returns the status and the body.
func (h tenants) ask(t *testing.T, tenant, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/hooks"+path, strings.NewReader(body))
	r.Header.Set("User", tenant)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	if len(text) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil && w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusNotFound {
			t.Errorf("%s %s: %s", method, path, text)
		}
	}
	if w.Header().Get("Cache-Control") != "no-store" && w.Code < 300 {
		t.Errorf("%s %s can be cached", method, path)
	}
	return w.Code, answer
}

func (h tenants) want(t *testing.T, status int, tenant, method, path, body string) map[string]any {
	t.Helper()
	got, answer := h.ask(t, tenant, method, path, body)
	if got != status {
		t.Errorf("%s %s %s: %d, want %d: %v", method, path, body, got, status, answer)
	}
	return answer
}

// TestTenantHandler: a tenant creates, changes, disables, rotates, tests and deletes its endpoints, sees what was sent, and sends it again. Its secret is shown by the answers that
// make it, and by no other; values of headers by none; an answer of its endpoint only if the host is listed.
func TestTenantHandler(t *testing.T) {
	testenv.Both(t)
	on(t, testTenantHandler[pgx.Tx], testTenantHandler[*sql.Tx])
}

func testTenantHandler[TX any](t *testing.T, g *fixture[TX]) {
	h := tenantsOf(g.hooks)
	created := h.want(t, 201, "acme", "POST", "/endpoints", `{"url":"https://203.0.113.7/h","types":["*"],"headers":{"X-Password":"confidential"},"description":"first","rate":5}`)
	id, _ := created["id"].(string)
	secret, _ := created["secret"].(string)
	if stored, _ := g.secrets(t, id); secret != stored || !strings.HasPrefix(secret, "whsec_") || created["description"] != "first" || created["rate"] != 5.0 {
		t.Errorf("created %v", created)
	}
	path := "/endpoints/" + id
	var seen []any
	see := func(status int, method, path, body string) map[string]any {
		t.Helper()
		answer := h.want(t, status, "acme", method, path, body)
		seen = append(seen, answer)
		return answer
	}
	see(200, "GET", path, "")
	see(200, "GET", "/endpoints", "")
	changed := see(200, "PATCH", path, `{"description":"second","version":1}`)
	if changed["description"] != "second" || changed["url"] != "https://203.0.113.7/h" || fmt.Sprint(changed["header_names"]) != "[x-password]" {
		t.Errorf("changed %v", changed)
	}
	if problem := see(409, "PATCH", path, `{"description":"third","version":1}`); problem["code"] != "changed" {
		t.Errorf("%v", problem)
	}
	if see(200, "POST", path+"/disable", "")["disabled_by"] != "person" || see(409, "POST", path+"/test", "")["code"] != "disabled" || see(200, "POST", path+"/enable", "")["disabled_at"] != nil {
		t.Error("not disabled and enabled")
	}
	rotated := h.want(t, 200, "acme", "POST", path+"/rotate", `{"overlap_seconds":3600}`)
	if now, old := g.secrets(t, id); rotated["secret"] != now || old != secret || rotated["old_secret_until"] == nil {
		t.Errorf("rotated %v", rotated)
	}
	if see(409, "POST", path+"/rotate", "")["code"] != "rotating" {
		t.Error("rotated twice")
	}
	test, _ := see(200, "POST", path+"/test", "")["event"].(string)
	g.send(t, event("acme", "a"))
	var e webhook.Endpoint
	e.ID = id
	g.attempt(t, e, webhook.TypeTest, 500, true)
	list := see(200, "GET", path+"/deliveries?limit=1", "")
	if list["more"] != true || see(200, "GET", path+"/deliveries?state=stopped", "")["more"] != false {
		t.Errorf("%v", list)
	}
	one := see(200, "GET", path+"/deliveries/"+test, "")
	if attempts, _ := one["attempts"].([]any); one["state"] != "stopped" || len(attempts) != 1 || strings.Contains(fmt.Sprint(one), "hello") {
		t.Errorf("one delivery: %v", one)
	}
	cfg := config()
	cfg.ShowAnswersOf = []string{"203.0.113.7"}
	if shown := tenantsOf(webhook.New(g.db, cfg)).want(t, 200, "acme", "GET", path+"/deliveries/"+test, ""); !strings.Contains(fmt.Sprint(shown), "hello") {
		t.Errorf("the answer of a listed host is not shown: %v", shown)
	}
	if see(200, "POST", path+"/recover", `{"since":"2020-01-01T00:00:00Z"}`)["deliveries"] != 1.0 || see(200, "POST", path+"/replay", `{"since":"2020-01-01T00:00:00Z"}`)["deliveries"] != 0.0 {
		t.Error("not recovered, or replayed")
	}
	see(204, "POST", path+"/deliveries/"+test+"/resend", "")
	for body, want := range map[string]string{
		`{`: "malformed", `{"url":1}`: "malformed", `{"unknown":1}`: "malformed", `{"url":"https://203.0.113.7","types":["*"]}{}`: "malformed", `{"url":"https://203.0.113.7"}`: "invalid",
		`{"url":"https://203.0.113.7","types":["*"],"rate":1e-320}`: "invalid", `{"url":"https://203.0.113.7","types":["*"],"description":"\u0000"}`: "invalid",
		`{"url":"https://203.0.113.7/\u0000","types":["*"]}`: "url_not_allowed",
		`{"url":"https://10.1.2.3","types":["*"]}`:           "url_not_allowed", `{"url":"https://203.0.113.7","types":["*"],"headers":{"webhook-id":"1"}}`: "invalid",
		`{"url":"https://203.0.113.7","types":["*"],"description":"` + strings.Repeat("x", 65<<10) + `"}`: "too_large",
	} {
		status, problem := h.ask(t, "acme", "POST", "/endpoints", body)
		if problem["code"] != want || status < 400 || status > 422 || strings.Contains(fmt.Sprint(problem), "10.1.2.3") {
			t.Errorf("%.60s: %d %v, want %s", body, status, problem, want)
		}
	}
	see(400, "POST", path+"/recover", "{}")
	see(400, "GET", path+"/deliveries?limit=1000", "")
	see(400, "GET", path+"/deliveries?state=lost", "")
	see(404, "GET", path+"/deliveries?before=msg_none", "")
	see(204, "DELETE", path, "")
	see(404, "DELETE", path, "")
	for _, plain := range []string{secret[6:], fmt.Sprint(rotated["secret"])[6:], "confidential"} {
		if strings.Contains(fmt.Sprint(seen), plain) {
			t.Errorf("%q is shown", plain)
		}
	}
	if h.want(t, 401, "", "GET", "/endpoints", "")["code"] != "unauthenticated" {
		t.Error("a request of nobody")
	}
	form := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks"+path+"/enable", nil)
	form.Header.Set("User", "acme")
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, form); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a form of another page: %d", w.Code)
	}
}

// TestOtherTenants: with what another tenant has, each route answers as it does when it does not exist, and nothing is changed.
func TestOtherTenants(t *testing.T) {
	testenv.Both(t)
	on(t, testOtherTenants[pgx.Tx], testOtherTenants[*sql.Tx])
}

func testOtherTenants[TX any](t *testing.T, g *fixture[TX]) {
	h := tenantsOf(g.hooks)
	theirs, mine := g.endpoint(t, "acme", "*"), g.endpoint(t, "mallory", "*")
	v := event("acme", "a")
	v.ID = "msg_theirs"
	g.send(t, v)
	g.attempt(t, theirs, "a", 500, true)
	var before, after string
	state := func() (text string) {
		for _, table := range []string{"endpoint", "event", "delivery", "attempt"} {
			text += fmt.Sprint(" ", g.count(t, "select count(*) from once_webhook_"+table))
		}
		return text + fmt.Sprint(g.count(t, "select sum(version) from once_webhook_endpoint"), g.count(t, "select count(*) from once_webhook_delivery where due_at is null"))
	}
	before = state()
	routes := 0
	for _, route := range []string{
		"GET ", "PATCH ", "DELETE ", "POST /disable", "POST /enable", "POST /rotate", "POST /test", "POST /recover", "POST /replay", "GET /deliveries", "GET /deliveries/msg_theirs",
		"POST /deliveries/msg_theirs/resend",
	} {
		method, rest, _ := strings.Cut(route, " ")
		body := ""
		if strings.HasPrefix(rest, "/re") && rest != "/rotate" {
			body = `{"since":"2020-01-01T00:00:00Z"}`
		}
		_, none := h.ask(t, "mallory", method, "/endpoints/ep_none"+rest, body)
		status, other := h.ask(t, "mallory", method, "/endpoints/"+theirs.ID+rest, body)
		if status != http.StatusNotFound || fmt.Sprint(none) != fmt.Sprint(other) || other["code"] != "not_found" {
			t.Errorf("%s: %d %v, and of one that does not exist %v", route, status, other, none)
		}
		routes++
	}
	for _, route := range []string{"GET /deliveries/msg_theirs", "POST /deliveries/msg_theirs/resend", "GET /deliveries?before=msg_theirs"} { // my endpoint, and their event
		method, rest, _ := strings.Cut(route, " ")
		h.want(t, 404, "mallory", method, "/endpoints/"+mine.ID+rest, "")
	}
	for _, path := range []string{"/endpoints/%00", "/endpoints/%ff/deliveries", "/endpoints/" + mine.ID + "/deliveries/%00", "/endpoints/" + mine.ID + "/deliveries?before=%00"} { // PostgreSQL takes no such text
		h.want(t, 404, "mallory", "GET", path, "")
	}
	if list := fmt.Sprint(h.want(t, 200, "mallory", "GET", "/endpoints", "")); strings.Contains(list, theirs.ID) || !strings.Contains(list, mine.ID) {
		t.Errorf("mallory sees %s", list)
	}
	if after = state(); before != after || routes < 12 {
		t.Errorf("%d routes: before %s, after %s", routes, before, after)
	}
}

// FuzzTenantHandler: whatever a tenant sends, the answer is JSON, no error of the service, and the endpoint of another tenant stays as it is.
func FuzzTenantHandler(f *testing.F) {
	for _, seed := range []string{
		`POST /endpoints {"url":"https://203.0.113.7","types":["a.*","*"],"headers":{"a":"b"},"rate":1e300}`, `PATCH /endpoints/ID {"types":[],"headers":null,"version":9223372036854775807}`,
		`POST /endpoints/ID/rotate {"overlap_seconds":1e18,"secret":"whsk_"}`, `POST /endpoints/ID/recover {"since":"0001-01-02T00:00:00Z","until":"9999-01-01T00:00:00Z","rate":1e-300}`,
		`POST /endpoints/ID/replay {"since":"2020-01-01T00:00:00+23:59","rate":0.0001}`, `GET /endpoints/ID/deliveries?limit=-1&before=%00&state=%ff `, `DELETE /endpoints/%2e%2e `,
		`POST /endpoints/ID/deliveries/msg_theirs/resend {}`, `POST /endpoints {"url":"https://[::ffff:10.0.0.1]/","types":["\u0000"]}`, `GET /endpoints/%00/deliveries/%f0%28%8c%bc `,
		`POST /endpoints {"url":"https://203.0.113.7","types":["*"],"description":"\ud800","concurrency":1000}`,
	} {
		f.Add(seed)
	}
	d := harness.Migrated(f, harness.SQLite, sets)
	s, _ := harness.OpenSQL(f, d)
	g := fixtureOn(d, harness.Store[*sql.Tx](s))
	h := tenantsOf(g.hooks)
	es := g.hooks.Endpoints()
	theirs, _, err := es.Create(f.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.7", Types: []string{"*"}})
	must(f, err)
	mine, _, err := es.Create(f.Context(), webhook.Endpoint{Tenant: "mallory", URL: "https://203.0.113.7", Types: []string{"*"}})
	must(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		method, rest, _ := strings.Cut(text, " ")
		path, body, _ := strings.Cut(rest, " ")
		if !strings.HasPrefix(path, "/") {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://h/hooks"+strings.ReplaceAll(path, "ID", mine.ID), strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("User", "mallory")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if isJSON := strings.HasPrefix(w.Header().Get("Content-Type"), "application/"); w.Code >= 500 || isJSON && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q: %d %s", text, w.Code, w.Body)
		}
		if now, err := es.Get(t.Context(), "acme", theirs.ID); err != nil || fmt.Sprint(now) != fmt.Sprint(theirs) {
			t.Errorf("%q: the endpoint of another tenant is %+v, %v", text, now, err)
		}
	})
}
