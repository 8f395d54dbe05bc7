// Package home runs one service in several regions, each with a database of its own, and gives each tenant one region that
// executes for it: its home. Only there is an operation claimed, and so a key takes effect once, whichever region a retry comes to.
//
//	regions := home.NewMap("ap", "eu", "us")
//	engine := once.New(home.New(pgxstore.New(pool, pgxstore.Config{}), regions), once.Config{})
//	mux.Handle("/", home.Handler(home.Config{Region: "eu", Map: regions, Tenant: tenantOf, URL: urlOf}, api))
//
// A [Map] says where a tenant lives: where it is pinned, or where a hash puts it. It is a hint. A row in the database of
// the region decides: [Store] has each commit of an operation check in its own transaction that the region owns the tenant. If it does not, nothing is applied,
// and the caller receives [NotHomeError]: it should come again with the same key.
//
// [Handler] forwards a request of another region's tenant once. [Mover] moves a tenant to another region, as "once home move" does, or
// gives a new tenant its first row.
//
// The scope of each operation begins with its tenant: see [TenantOf].
package home
