package payments

import (
	"context"
	"net/http"
	"strconv"

	"github.com/oncelib/once/oncehttp"
)

// Customer is always replaced as a whole, by clients that have seen its latest version. A PUT with If-Match needs no key: if it is sent twice,
// the second one does not match, so it takes effect once.
type Customer struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Email     string `json:"email"`
	UpdatedAt string `json:"updated_at"`

	version int64
}

// etag returns the ETag of c, or "" if there is no such customer.
func (c Customer) etag() string {
	if c.version == 0 {
		return ""
	}
	return `"` + strconv.FormatInt(c.version, 10) + `"`
}

func putCustomer(r *http.Request, tx queries) (answer, error) {
	in, err := readForm(r)
	if err != nil {
		return answer{}, err
	}
	c := Customer{ID: r.PathValue("id"), Name: in.text("name", 200), Email: in.text("email", 254), UpdatedAt: now()}
	in.check("id", len(c.ID) <= 64, "must have at most 64 bytes")
	in.check("id", printable(c.ID), notPrintable)
	if err := in.err(); err != nil {
		return answer{}, err
	}
	ctx, tenant := r.Context(), tenant(r)
	was, err := customerByID(ctx, tx, tenant, c.ID)
	if err != nil {
		return answer{}, err
	}
	match, conditional := oncehttp.IfMatch(r, was.etag())
	creates := !conditional && r.Header.Get("If-None-Match") == "*"
	switch {
	case creates && was.version == 0:
		c.version = 1
		return insertCustomer(ctx, tx, tenant, c)
	case creates:
		return answer{}, notTheLast(exists + " Its ETag is " + was.etag() + ".")
	case conditional && was.version == 0:
		return answer{}, notTheLast(missing)
	case conditional && !match:
		return answer{}, notTheLast(changed + " Its ETag is now " + was.etag() + ".")
	case !conditional:
		return answer{}, unconditional()
	}
	c.version = was.version + 1
	n, err := tx.exec(ctx, `
		update customer set name = $3, email = $4, version = $5, updated_at = $6
		where tenant = $1 and id = $2 and version = $5 - 1`,
		tenant, c.ID, c.Name, c.Email, c.version, c.UpdatedAt)
	if err == nil && n == 0 {
		err = notTheLast(changed) // another request has changed the customer between the two statements
	}
	return answer{status: http.StatusOK, etag: c.etag(), body: c}, err
}

func insertCustomer(ctx context.Context, tx queries, tenant string, c Customer) (answer, error) {
	n, err := tx.exec(ctx, `
		insert into customer (tenant, id, name, email, version, updated_at)
		values ($1, $2, $3, $4, $5, $6) on conflict do nothing`,
		tenant, c.ID, c.Name, c.Email, c.version, c.UpdatedAt)
	if err == nil && n == 0 {
		err = notTheLast(exists)
	}
	return answer{status: http.StatusCreated, etag: c.etag(), body: c}, err
}

func getCustomer(r *http.Request, tx queries) (answer, error) {
	c, err := customerByID(r.Context(), tx, tenant(r), r.PathValue("id"))
	if err == nil && c.version == 0 {
		err = notFound("customer", r.PathValue("id"))
	}
	return answer{status: http.StatusOK, etag: c.etag(), body: c}, err
}

// customerByID returns a customer. If there is no such customer, its version is 0.
func customerByID(ctx context.Context, tx queries, tenant, id string) (c Customer, err error) {
	if !printable(id) {
		return c, nil
	}
	_, err = one(ctx, tx, []any{&c.ID, &c.Name, &c.Email, &c.version, &c.UpdatedAt}, `
		select id, name, email, version, updated_at from customer where tenant = $1 and id = $2`, tenant, id)
	return c, err
}
