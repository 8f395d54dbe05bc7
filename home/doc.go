// Package home runs one service in several regions, each with its own database. Each tenant has one region, the
// home of the tenant, that executes the tenant's operations. An operation of a tenant is executed only in the
// home of the tenant, so a key takes effect once, no matter which region receives a retry.
//
//	regions := home.NewMap("ap", "eu", "us")
//	engine := once.New(home.New(pgxstore.New(pool, pgxstore.Config{}), regions), once.Config{})
//	mux.Handle("/", home.Handler(home.Config{Region: "eu", Map: regions, Tenant: tenantOf, URL: urlOf}, api))
//
// A [Map] says which region is the home of a tenant: the region to which the tenant is pinned (assigned), or, if the tenant is not pinned, the region
// that a hash chooses. A Map may be outdated. Only a row in the database of a region decides whether the region owns a tenant: each commit of an
// operation through [Store] checks this row in its own transaction. If the region does not own the tenant, nothing is applied, and the caller
// receives [NotHomeError]. After a NotHomeError the caller may try again with the same key.
//
// [Handler] forwards a request to the home of its tenant. A region never forwards a request that another region
// has forwarded. When a tenant was moved, a Map learns the new home of the tenant from the answers of other
// regions and from the database of its own region. [Mover] moves a tenant to another region, as the command "once
// home move" does. [Mover] also creates the row of a new tenant.
//
// The scope of each operation must begin with the name of the tenant: see [TenantOf].
package home
