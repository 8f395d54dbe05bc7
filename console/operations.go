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

// mostRead is how many operations a page of a list reads to fill itself.
const mostRead = 2000

// mostAtAGlance is roughly how many rows the overview reads of topics.
const mostAtAGlance = 500

// overviewBody is the overview.
type overviewBody struct {
	operate.Overview

	Topics   []topicRow     // whose messages wait
	More     bool           // not all topics were read
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
	if q.user.Tenants != nil { // the totals of the overview count all tenants
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
	Filter  url.Values // as the form has it
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

// states are the states to choose from; "" means all.
var states = []string{"", "running", "waiting", "unknown", "done", operate.StateExpired}

// list reads a page: under a key, with a hash, or all.
func (q *request) list(f operate.KeyFilter, key, hash string) (p operate.Page[operate.Operation], err error) {
	switch {
	case key != "":
		// Search limits scopes by Most, and not operations: its own default applies.
		f.Most = 0
		return q.Operate.Keys.Search(q.ctx, key, f)
	case hash == "":
		return q.Operate.Keys.List(q.ctx, f)
	}
	// No index has the hashes of keys, so a page of the list is read and the other keys are left out.
	f.Limit = f.Most
	p, err = q.Operate.Keys.List(q.ctx, f)
	p.Items = slices.DeleteFunc(p.Items, func(op operate.Operation) bool { return !slices.Contains(keyname.Hashes(op.Key), hash) })
	// The operations after this page were not compared with the hash.
	p.Cut = p.Next != ""
	return p, err
}

// find redirects from a key that a user has entered to a link in which the key is encrypted.
func (q *request) find() error {
	key, tenant := q.PostFormValue("key"), q.PostFormValue("tenant")
	switch {
	case key == "":
		redirect(q.w, link("operations", "tenant", tenant))
	case hashed.MatchString(key):
		redirect(q.w, link("operations", "tenant", tenant, "hash", key))
	default:
		if bare, quoted := keyname.Unquoted(key); quoted { // as in the log of a proxy
			key = bare
		}
		redirect(q.w, link("operations", "tenant", tenant, "key", q.seal.seal(sealedKey, key)))
	}
	return nil
}
