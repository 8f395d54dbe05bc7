package console_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/console"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestPagesAreReachableAndEscaped: all pages can be reached by links, each answers, none has markup or an escape of a terminal from a field, and none
// allows anything from elsewhere.
func TestPagesAreReachableAndEscaped(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		pages := crawl(t, g.server.URL+"/", "ada")
		kinds := map[string]bool{}
		for at, p := range pages {
			u, err := url.Parse(at)
			harness.Must(t, err)
			kinds[u.Path] = true
			if p.status != http.StatusOK && (p.status != http.StatusConflict || u.Path != "/do") {
				t.Errorf("%s: %d: %s", at, p.status, p.body)
			}
			policy := p.header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: the policy is %q", at, policy)
			}
			if strings.HasSuffix(u.Path, ".js") || strings.HasSuffix(u.Path, ".css") {
				continue
			}
			for _, bad := range []string{"<img", "<script>", "onerror=alert(1)>", "\x1b", "\u202e", "style=", "http://", "https://"} {
				if strings.Contains(p.body, bad) {
					t.Errorf("%s has %q", at, bad)
				}
			}
		}
		want := []string{
			"/", "/operations", "/operation", "/outbox", "/messages", "/message", "/deadletters", "/letters", "/letter", "/event", "/attempts", "/endpoints", "/endpoint", "/delivery", "/sagas", "/saga", "/inboxes", "/inbox", "/place",
			"/audit", "/help", "/do", "/console.css", "/console.js",
		}
		for _, path := range want {
			if !kinds[path] {
				t.Errorf("no link leads to %s, only to %q", path, slices.Sorted(maps.Keys(kinds)))
			}
		}
		for _, form := range []url.Values{{"what": {"operation"}, "id": {g.operationLink(t, "operations?state=done")}}, {"what": {"message"}, "id": {messageID}}, {"what": {"letter"}, "id": {letterID}},
			{"what": {"endpoint"}, "endpoint": {"ep_1"}}, {"what": {"delivery"}, "endpoint": {"ep_acme"}, "event": {"msg_stopped"}}, {"what": {"saga"}, "id": {g.sagaLink(t, "sagas?tenant=acme&name=force")}}} {
			p := g.post(t, "ada", "show", form)
			if p.status != http.StatusOK || strings.Contains(p.body, "<script>") || strings.Contains(p.body, "<b>\"") || strings.Contains(p.body, "\x1b") {
				t.Errorf("%v: %d: %s", form, p.status, p.body)
			}
		}
	})
}

// TestKeysAndPayloadsAreHidden: keys, headers, payloads and stored answers are on no page until an operator asks for one, and the audit has it. Digits of
// numbers are those that are stored, and a cookie in an answer stays hidden.
func TestKeysAndPayloadsAreHidden(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		for _, user := range []string{"vic", "ada"} {
			for at, p := range crawl(t, g.server.URL+"/", user) {
				for _, secret := range []string{secretKey, "key-&lt;script", "key-", secretOrder, secretBody, secretValue} {
					if strings.Contains(p.body, secret) || strings.Contains(at, url.QueryEscape(secret)) {
						t.Errorf("%s sees %q in %s", user, secret, at)
					}
				}
			}
		}
		id := g.operationLink(t, "operations?state=done")
		for what, form := range map[string]url.Values{
			"key-&lt;script": {"what": {"operation"}, "id": {id}}, secretOrder: {"what": {"message"}, "id": {messageID}}, `h: ` + secretValue: {"what": {"letter"}, "id": {letterID}},
		} {
			if p := g.post(t, "vic", "show", form); p.status != http.StatusForbidden || strings.Contains(p.body, secretBody) {
				t.Errorf("a viewer is shown %v: %d", form, p.status)
			}
			if n := g.count(t, "select count(*) from once_audit where who = 'vic'"); n > 0 {
				t.Errorf("%d entries of a viewer who was refused", n)
			}
			before := g.count(t, "select count(*) from once_audit where who = 'ada' and action = 'show'")
			p := g.post(t, "ada", "show", form)
			if p.status != http.StatusOK || !strings.Contains(p.body, secretBody) || !strings.Contains(p.body, what) {
				t.Errorf("%v: %d: %s", form, p.status, p.body)
			}
			if form.Get("what") == "operation" && strings.Contains(p.body, secretValue) {
				t.Error("the cookie of a customer is shown")
			}
			if n := g.count(t, "select count(*) from once_audit where who = 'ada' and action = 'show'"); n != before+1 {
				t.Errorf("%v: %d entries of the audit, want %d", form, n, before+1)
			}
		}
		place := url.Values{"what": {"place"}, "id": {g.placeLink(t, 0)}}
		if p := g.post(t, "vic", "show", place); p.status != http.StatusForbidden || strings.Contains(p.body, secretOrder) {
			t.Errorf("a viewer is shown the key of an inbox: %d", p.status)
		}
		shown := "select count(*) from once_audit where who = 'ada' and action = 'show' and key_hash = '" + once.KeyHash(secretOrder) + "'"
		if p := g.post(t, "ada", "show", place); p.status != http.StatusOK || !strings.Contains(p.body, secretOrder) || strings.Contains(p.body, secretBody) || g.count(t, shown) != 1 {
			t.Errorf("the key of an inbox: %d, %d entries of the audit: %s", p.status, g.count(t, shown), p.body)
		}
		g.exec(t, "drop table once_audit")
		if p := g.post(t, "ada", "show", place); p.status == http.StatusOK || strings.Contains(p.body, secretOrder) {
			t.Errorf("the key of an inbox is shown without an audit: %d", p.status)
		}
		if p := g.post(t, "ada", "show", url.Values{"what": {"message"}, "id": {messageID}}); p.status == http.StatusOK || strings.Contains(p.body, secretBody) {
			t.Errorf("shown without an audit: %d", p.status)
		}
	})
}

// TestFindKey: a key that is entered is found in each scope that the user may see, and the address does not tell it.
func TestFindKey(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		find := func(user, key string) page {
			p := g.post(t, user, "find", url.Values{"key": {key}})
			to := p.header.Get("Location")
			if p.status != http.StatusSeeOther || strings.Contains(to, url.QueryEscape(key)) || strings.ContainsAny(to, "/:") {
				t.Errorf("%d to %q", p.status, to)
			}
			return g.get(t, user, to)
		}
		if p := find("vic", "unknown"); strings.Count(p.body, "operation?id=") != 2 {
			t.Errorf("in two scopes: %s", p.body)
		}
		if p := find("vic", `"`+secretKey+`"`); strings.Count(p.body, "operation?id=") != 1 {
			t.Errorf("in quotation marks: %s", p.body)
		}
		if p := find("acme", "unknown"); strings.Count(p.body, "operation?id=") != 1 || strings.Contains(p.body, "globex") {
			t.Errorf("of a tenant: %s", p.body)
		}
		if p := g.get(t, "vic", "operations?hash=47384ac57563295f"); !strings.Contains(p.body, "No operation matches") {
			t.Errorf("a hash of none: %s", p.body)
		}
	})
}

// TestTenantsSeeOnlyTheirOwn: a user with tenants sees operations of no other tenant, by no link, filter or search, and nothing that has no tenant.
func TestTenantsSeeOnlyTheirOwn(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		n := 0
		for at, p := range crawl(t, g.server.URL+"/operations", "acme") {
			if n += strings.Count(p.body, "acme POST"); strings.Contains(p.body, "globex") {
				t.Errorf("%s tells of another tenant", at)
			}
		}
		if n == 0 {
			t.Error("vacuous")
		}
		other, place, saga := g.operationLink(t, "operations?scope=globex"), g.placeLink(t, 0), g.sagaLink(t, "sagas?tenant=globex")
		for _, path := range []string{
			"operation?id=" + other, "do?action=resolve&id=" + other, "do?action=forget&id=" + other, "operations?tenant=globex", "outbox", "messages", "message?id=" + messageID,
			"deadletters", "letters", "letter?id=" + letterID, "audit", "attempts", "event", "endpoints?tenant=globex", "sagas?tenant=globex", "endpoint?endpoint=ep_other", "endpoint?endpoint=ep_1", "delivery?endpoint=ep_other&event=msg_other", "delivery?endpoint=ep_acme&event=msg_other",
			"saga?id=" + saga, "saga?id=" + other, "do?action=saga-retry&id=" + saga, "do?action=webhook-enable&endpoint=ep_1", "do?action=webhook-resend&endpoint=ep_other&event=msg_other", "do?action=webhook-recover&since=24h&endpoint=ep_other", "event?id=msg_stopped",
			"inboxes", "inbox?consumer=" + url.QueryEscape(inboxConsumer), "place?id=" + place, "do?action=inbox-skip&id=" + place, "do?action=start-at&id=" + place, "do?action=start-at&seq=7&id=" + place,
			"event?id=" + messageID, "do?action=pause&topic=refunds", "do?action=skip&id=" + messageID, "do?action=resend&id=" + sentID, "do?action=redrive&origin=inbox", "do?action=discard&origin=inbox",
		} {
			if p := g.get(t, "acme", path); p.status != http.StatusNotFound || strings.Contains(p.body, "globex") {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
		}
		for _, form := range []url.Values{
			{"action": {"pause"}, "topic": {"refunds"}}, {"action": {"skip"}, "id": {messageID}}, {"action": {"discard"}, "origin": {"inbox"}}, {"action": {"redrive"}, "origin": {"inbox"}},
			{"action": {"resolve"}, "id": {other}, "way": {"run-again"}}, {"action": {"inbox-skip"}, "id": {place}, "seq": {"2"}}, {"action": {"start-at"}, "id": {place}, "seq": {"4"}, "dropped": {"1"}},
			{"action": {"saga-retry"}, "id": {saga}, "fence": {"1"}}, {"action": {"webhook-disable"}, "endpoint": {"ep_other"}},
			{"action": {"webhook-resend"}, "endpoint": {"ep_acme"}, "event": {"msg_other"}},
		} {
			form.Set("reason", "because")
			if p := g.post(t, "acme", "do", form); p.status != http.StatusNotFound {
				t.Errorf("%v: %d: %s", form, p.status, p.body)
			}
		}
		for what, id := range map[string]string{"message": letterID, "letter": letterID, "place": place, "saga": saga, "endpoint": letterID, "delivery": letterID} {
			if p := g.post(t, "acme", "show", url.Values{"what": {what}, "id": {id}, "endpoint": {"ep_other"}, "event": {"msg_other"}}); p.status != http.StatusNotFound {
				t.Errorf("%s: %d", what, p.status)
			}
		}
		if n := g.count(t, "select count(*) from once_audit"); n > 0 {
			t.Errorf("%d entries in the audit", n)
		}
	})
}

// TestPrefixOfAllLinks: the pages work under a prefix, also if a proxy removes it, and send no browser elsewhere.
func TestPrefixOfAllLinks(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.SQLite, harness.Postgres}, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		pages := console.Handler(console.Config{Operate: g.operator, Prefix: "/ops/once", User: g.who})
		mux := http.NewServeMux()
		mux.Handle("/ops/once/", pages)
		mux.Handle("/stripped/", http.StripPrefix("/stripped", pages))
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		for _, base := range []string{"/ops/once/", "/stripped/"} {
			all := crawl(t, server.URL+base, "ada")
			for at, p := range all {
				if !strings.HasPrefix(at, server.URL+base) || p.status == http.StatusNotFound {
					t.Errorf("%s: a link leads to %s: %d", base, at, p.status)
				}
			}
			if len(all) < 20 {
				t.Errorf("%s: vacuous: %d pages", base, len(all))
			}
		}
		for _, path := range []string{"//evil.example/", "/ops/once//evil.example", "/ops/once/%2f%2fevil.example", "/ops/once/find"} {
			p := send(t, http.MethodPost, server.URL+path, "ada", url.Values{"key": {"//evil.example"}, "tenant": {"//evil.example"}}, "Host", "evil.example")
			if to := p.header.Get("Location"); strings.Contains(strings.TrimPrefix(to, "operations?"), "//") || strings.HasPrefix(to, "http") {
				t.Errorf("%s leads to %q", path, to)
			}
		}
	})
}
