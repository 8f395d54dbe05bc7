package console

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// mostRead is how many operations a page reads at most to fill its list.
const mostRead = 2000

// mostAtAGlance is about how many rows of topics the overview reads.
const mostAtAGlance = 500

// overviewBody is the overview.
type overviewBody struct {
	operate.Overview

	Topics   []topicRow     // topics whose messages wait
	More     bool           // some topics were not read
	Inboxes  *operate.Tally // keys of inboxes that wait for a message; nil without an inbox
	Volatile []volatileRow
}

// volatileRow is a store with the data that it may lose.
type volatileRow struct{ Name, Says string }

func (c *console) volatile() (rows []volatileRow) {
	for _, name := range slices.Sorted(maps.Keys(c.Stores)) {
		if v, ok := store.As[upkeep.Volatile](c.Stores[name]); ok {
			rows = append(rows, volatileRow{name, v.Volatile()})
		}
	}
	return rows
}

func (q *request) overview() error {
	if q.user.Tenants != nil { // the numbers of the overview include all tenants
		redirect(q.w, "operations")
		return nil
	}
	v, err := q.Operate.Overview(q.ctx)
	if err != nil {
		return err
	}
	body := overviewBody{Overview: v, Volatile: q.volatile()}
	if v.Outbox != nil {
		topics, err := q.Operate.Outbox.TopicsUpTo(q.ctx, "", mostAtAGlance)
		if err != nil {
			return err
		}
		body.Topics = slices.DeleteFunc(rowsOf(topics.Items), func(t topicRow) bool { return len(t.Waits) == 0 && t.Paused == nil })
		body.More = topics.Next != ""
	}
	if waiting, known, err := q.waitingInboxes(); err != nil {
		return err
	} else if known {
		body.Inboxes = &waiting
	}
	return q.render("overview", "Overview", body)
}

// operationRow is a line of the list.
type operationRow struct {
	operate.Operation

	Link string
}

// operationsBody is a page of operations.
type operationsBody struct {
	Rows    []operationRow
	Filter  url.Values // the values of the form
	States  []string
	Tenants []string
	Tenant  string
	Found   bool // the page shows one key, and not a list
	Cut     bool
	Most    int
	Next    string
}

var hashed = regexp.MustCompile("^[0-9a-f]{16}$")

// operations lists operations by the filters of the URL, or searches for a key.
func (q *request) operations() error {
	form := q.URL.Query()
	tenant, prefix, err := q.tenant()
	if err != nil {
		return err
	}
	after, ok := q.seal.open(sealedCursor, form.Get("after"))
	key, known := q.seal.open(sealedKey, form.Get("key"))
	if !ok || !known {
		return errNotFound
	}
	f := operate.KeyFilter{State: form.Get("state"), Name: form.Get("name"), ScopePrefix: prefix + form.Get("scope"), Most: mostRead, Window: operate.Window{After: after}}
	if !slices.Contains(states, f.State) {
		return errNotFound
	}
	if since := form.Get("since"); since != "" {
		ago, err := time.ParseDuration(since)
		if err != nil || ago < 0 {
			return &refusal{"the field Since is not a duration. Try: a duration such as 24h"}
		}
		now, err := q.Operate.Keys.Now(q.ctx)
		if err != nil {
			return err
		}
		f.Since = now.Add(-ago)
	}
	p, err := q.list(f, key, form.Get("hash"))
	if err != nil {
		return err
	}
	body := operationsBody{Filter: form, States: states, Tenants: q.user.Tenants, Tenant: tenant, Found: key != "", Cut: p.Cut, Most: mostRead}
	for _, op := range p.Items {
		if q.sees(op.Scope) {
			body.Rows = append(body.Rows, operationRow{op, link("operation", "id", q.seal.operation(op.ID()))})
		}
	}
	if p.Next != "" {
		next := url.Values{}
		maps.Copy(next, form)
		next.Set("after", q.seal.seal(sealedCursor, p.Next))
		body.Next = "operations?" + next.Encode()
	}
	return q.render("operations", "Operations", body)
}

// states has the states that a user can choose; "" means all states.
var states = []string{"", "running", "waiting", "unknown", "done", operate.StateExpired}

// list reads a page of operations: the operations with a key, with a hash of a key, or all.
func (q *request) list(f operate.KeyFilter, key, hash string) (p operate.Page[operate.Operation], err error) {
	switch {
	case key != "":
		// In Search, Most limits the number of scopes and not of operations. Therefore its own default applies.
		f.Most = 0
		return q.Operate.Keys.Search(q.ctx, key, f)
	case hash == "":
		return q.Operate.Keys.List(q.ctx, f)
	}
	// No index has the hashes of keys. So a page of the list is read, and the operations with other keys are removed.
	f.Limit = f.Most
	p, err = q.Operate.Keys.List(q.ctx, f)
	p.Items = slices.DeleteFunc(p.Items, func(op operate.Operation) bool { return !slices.Contains(keyname.Hashes(op.Key), hash) })
	// The operations after this page were not compared with the hash.
	p.Cut = p.Next != ""
	return p, err
}

// find redirects to a link in which the entered key is encrypted.
func (q *request) find() error {
	key, tenant := q.PostFormValue("key"), q.PostFormValue("tenant")
	switch {
	case key == "":
		redirect(q.w, link("operations", "tenant", tenant))
	case hashed.MatchString(key):
		redirect(q.w, link("operations", "tenant", tenant, "hash", key))
	default:
		if bare, quoted := keyname.Unquoted(key); quoted { // a key from the log of a proxy may have quotation marks
			key = bare
		}
		redirect(q.w, link("operations", "tenant", tenant, "key", q.seal.seal(sealedKey, key)))
	}
	return nil
}
