package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oncelib/once/console"
	"github.com/oncelib/once/internal/testenv"
)

// furnishHooks adds endpoints of several tenants, and what was sent to them. The operation has sent some of it, one thing to another tenant.
func (g *fixture) furnishHooks(t *testing.T, data []byte) {
	t.Helper()
	const endpoint = `insert into once_webhook_endpoint (uid, part, tenant, url, types, description, headers, secret, encrypted, ordered, rate, concurrency, disabled_at, disabled_by, created_at, version)
 values (?, 1, ?, ?, ' * ', ?, ?, ?, ?, ?, 0, 0, DISABLED, ?, NOW, 1)`
	for _, e := range []struct{ id, tenant, disabled, by string }{{"ep_1", nasty, "NOW", "person"}, {"ep_acme", "acme", "null", ""}, {"ep_other", "globex", "null", ""}, {"ep_spare", "acme", "null", ""}} {
		g.exec(t, strings.Replace(endpoint, "DISABLED", e.disabled, 1), e.id, e.tenant, "https://hooks.example/"+secretValue, nasty, []byte(`{"Authorization":"`+secretValue+`"}`), []byte("whsec_secret"), false, false, e.by)
	}
	for id, tenant := range map[string]string{"msg_stopped": "acme", "msg_done": "acme", "msg_waiting": "acme", "msg_missed": "acme", "msg_other": "globex"} {
		g.exec(t, "insert into once_webhook_event (uid, tenant, type, data, encrypted, trace, op_scope, op_key, created_at) values (?, ?, ?, ?, ?, '', ?, ?, NOW)", id, tenant, nasty, data, false, "acme POST /refunds", secretKey)
	}
	const pair = " from once_webhook_endpoint e, once_webhook_event v where e.uid = ? and v.uid = ?"
	for _, d := range []struct{ endpoint, event, due string }{{"ep_acme", "msg_stopped", "null"}, {"ep_acme", "msg_waiting", "later"}, {"ep_other", "msg_other", "null"}} {
		due, args := d.due, []any{}
		if due == "later" {
			due, args = "AGO(?)", append(args, int64(-3600_000_000))
		}
		g.exec(t, "insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at) select e.id, v.id, 1, "+due+", 9, '', NOW"+pair, append(args, d.endpoint, d.event)...)
	}
	for _, a := range []struct{ endpoint, event, status, failure string }{{"ep_acme", "msg_stopped", "0", nasty}, {"ep_acme", "msg_stopped", "500", ""}, {"ep_acme", "msg_done", "204", ""}, {"ep_other", "msg_other", "500", ""}} {
		g.exec(t, "insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host) select e.id, v.id, NOW, 1500, "+a.status+", ?, 7, v.data, false, '', 'hooks.example'"+pair, a.failure, a.endpoint, a.event)
	}
	g.exec(t, "insert into once_webhook_state (endpoint, part, failures, failing_since, circuit_until, told) select e.id, 1, 9, NOW, AGO(?), 50 from once_webhook_endpoint e where e.uid = 'ep_acme'", int64(-3600_000_000))
}

// TestHooksHidden: the URL of an endpoint and the data of an event are shown to an operator who asks, after the audit has it; what an endpoint has answered
// is not shown to a user with tenants, and its secret and headers to nobody.
func TestHooksHidden(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		const shows = "select count(*) from once_audit where action = 'show'"
		answers := func(body string) int { return strings.Count(body, secretBody) }
		endpoint, delivery := url.Values{"what": {"endpoint"}, "endpoint": {"ep_acme"}}, url.Values{"what": {"delivery"}, "endpoint": {"ep_acme"}, "event": {"msg_stopped"}}
		for _, form := range []url.Values{endpoint, delivery} {
			if p := g.post(t, "vic", "show", form); p.status != http.StatusForbidden || answers(p.body) > 0 || g.count(t, shows) > 0 {
				t.Errorf("a viewer is shown %v: %d", form, p.status)
			}
		}
		if p := g.post(t, "ada", "show", endpoint); p.status != http.StatusOK || !strings.Contains(p.body, "https://hooks.example/"+secretValue) || strings.Contains(p.body, "whsec_") || g.count(t, shows) != 1 {
			t.Errorf("the URL: %d: %s", p.status, p.body)
		}
		if p := g.post(t, "ada", "show", delivery); p.status != http.StatusOK || answers(p.body) != 3 || g.count(t, shows) != 2 {
			t.Errorf("data and two answers: %d, %d times: %s", p.status, answers(p.body), p.body)
		}
		if p := g.post(t, "acme", "show", delivery); p.status != http.StatusOK || answers(p.body) != 1 || g.count(t, shows) != 3 {
			t.Errorf("to a tenant the data alone: %d, %d times: %s", p.status, answers(p.body), p.body)
		}
		g.exec(t, "drop table once_audit")
		for _, form := range []url.Values{endpoint, delivery} {
			if p := g.post(t, "ada", "show", form); p.status == http.StatusOK || answers(p.body) > 0 || strings.Contains(p.body, secretValue) {
				t.Errorf("%v is shown without an audit: %d", form, p.status)
			}
		}
	})
}

// TestHooksOfTenants: a user with tenants has the endpoints of each of them, one at a time, and acts on those.
func TestHooksOfTenants(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		for path, want := range map[string]string{"endpoints": "ep_acme", "endpoints?tenant=acme&state=open": "ep_acme", "endpoint?endpoint=ep_acme": "msg_stopped", "sagas": "saga?id=", "delivery?endpoint=ep_acme&event=msg_stopped": "HTTP 500"} {
			if p := g.get(t, "acme", path); p.status != http.StatusOK || !strings.Contains(p.body, want) || strings.Contains(p.body, "ep_other") || strings.Contains(p.body, "globex") || strings.Contains(p.body, "ep_1&") {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
		}
		if p := g.post(t, "acme", "do", url.Values{"action": {"webhook-disable"}, "endpoint": {"ep_spare"}, "reason": {"asked"}}); p.status != http.StatusSeeOther {
			t.Errorf("%d: %s", p.status, p.body)
		}
		p := g.get(t, "acme", "operation?id="+g.operationLink(t, "operations?state=done"))
		if !strings.Contains(p.body, "delivery?endpoint=ep_acme&amp;event=msg_stopped") || strings.Contains(p.body, "globex") || strings.Contains(p.body, "ep_other") {
			t.Errorf("the operation has sent webhooks to two tenants: %s", p.body)
		}
		if p := g.get(t, "ada", "operation?id="+g.operationLink(t, "operations?state=done")); !strings.Contains(p.body, "delivery?endpoint=ep_other&amp;event=msg_other") {
			t.Errorf("who sees all sees both: %s", p.body)
		}
	})
}

// TestEmptyTenantSeesNothing: a user whose only tenant is "", such as the tenant of an empty session, sees no data of any tenant and none without a tenant; beside
// another tenant, "" gives nothing.
func TestEmptyTenantSeesNothing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		g.exec(t, "update once_webhook_endpoint set tenant = '' where uid = 'ep_1'")
		g.exec(t, "update once_operation set scope = ' POST /refunds' where scope = 'globex POST /refunds'")
		operation := g.operationLink(t, "operations?scope=+POST")
		g.users["nobody"] = console.User{Name: "nobody", Role: console.RoleOperator, Tenants: []string{""}}
		g.users["both"] = console.User{Name: "both", Role: console.RoleOperator, Tenants: []string{"", "acme"}}
		for _, path := range []string{
			"operations", "sagas", "endpoints", "endpoints?state=active", "endpoints?tenant=acme", "operations?tenant=acme", "sagas?tenant=acme", "operation?id=" + operation,
			"endpoint?endpoint=ep_1", "endpoint?endpoint=ep_acme", "delivery?endpoint=ep_acme&event=msg_stopped", "do?action=webhook-enable&endpoint=ep_1", "do?action=resolve&id=" + operation,
			"outbox", "deadletters", "inboxes", "audit", "attempts",
		} {
			if p := g.get(t, "nobody", path); p.status != http.StatusNotFound || strings.Contains(p.body, "acme") || strings.Contains(p.body, "globex") || strings.Contains(p.body, "ep_") {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
		}
		for _, path := range []string{"endpoint?endpoint=ep_1", "operation?id=" + operation} {
			if p := g.get(t, "both", path); p.status != http.StatusNotFound {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
		}
		if p := g.get(t, "both", "endpoints"); p.status != http.StatusOK || !strings.Contains(p.body, "ep_acme") || strings.Contains(p.body, "ep_other") || strings.Contains(p.body, "ep_1&") {
			t.Errorf("%d: %s", p.status, p.body)
		}
	})
}

// TestTwoOperators: of two operators who press the same button for a saga or a webhook, one does it, and the other is told. A decision is not about what a saga is
// stuck at later.
func TestTwoOperators(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		both := func(form url.Values) (first, second page) {
			answers := make(chan page, 2)
			for range 2 {
				go func() { answers <- g.post(t, "ada", "do", form) }()
			}
			return <-answers, <-answers
		}
		saga := g.sagaLink(t, "sagas?tenant=acme&name=retry")
		for name, c := range map[string]struct {
			form url.Values
			done string
		}{
			"saga-retry":      {g.formOf(t, "saga-retry", url.Values{"id": {saga}}), "select count(*) from once_audit where action = 'saga retry'"},
			"webhook-recover": {g.formOf(t, "webhook-recover", url.Values{"endpoint": {"ep_acme"}, "since": {"24h"}}), "select count(*) from once_audit where action = 'webhook recover'"},
		} {
			a, b := both(c.form)
			if a.status != http.StatusSeeOther && b.status != http.StatusSeeOther || g.count(t, c.done) != 1 {
				t.Errorf("%s: %d and %d, done %d times: %s%s", name, a.status, b.status, g.count(t, c.done), a.body, b.body)
			}
			if p := g.post(t, "ada", "do", c.form); p.status != http.StatusConflict || g.count(t, c.done) != 1 {
				t.Errorf("%s once more: %d: %s", name, p.status, p.body)
			}
		}
		form := g.formOf(t, "saga-force", url.Values{"id": {g.sagaLink(t, "sagas?tenant=acme&name=force")}, "step": {g.stepOf(t, "force")}})
		form.Set("way", "not-made")
		g.exec(t, "update once_operation set fence = fence + 1 where name = 'force'") // it has gone on, and is stuck at this call again
		if p := g.post(t, "ada", "do", form); p.status != http.StatusConflict || g.count(t, isSaga("force", "state = 3")) != 1 {
			t.Errorf("a decision about what was before: %d: %s", p.status, p.body)
		}
	})
}
