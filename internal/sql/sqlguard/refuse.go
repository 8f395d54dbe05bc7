package sqlguard

import "context"

// Refuse has f asked before each statement that the handler runs between ForbidCommit and AllowCommit. If it reports true, the database is sent
// a statement that fails in its place, so that the transaction is in the state in which a statement that has failed leaves it. It is for tests.
func (t *Txn) Refuse(f func() bool) { t.real().refusal = f }

// Exempt removes the function that Refuse has set, and returns it: until it is set again, statements belong to the store.
func (t *Txn) Exempt() (asked func() bool) {
	t = t.real()
	asked, t.refusal = t.refusal, nil
	return asked
}

// refused sends a statement that fails in place of the user's statement, if a test asks for it, and returns its error.
func (c *conn) refused(ctx context.Context, t *Txn, cmd command) error {
	switch {
	case t.refusal == nil, cmd.verb != ordinary, owns(ctx), !t.commitForbidden.Load():
		return nil
	case t.asked: // the driver has skipped the statement, and database/sql has prepared it
		t.asked = false
		return nil
	case !t.refusal():
		return nil
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	return c.run(ctx, failing[c.dialect])
}

// skipped notes that the driver wants a statement prepared, so that Refuse is not asked twice.
func (t *Txn) skipped() { t.asked = t.refusal != nil }

// failing are statements that fail when they are executed. In SQLite and MySQL a value is out of range: a division by zero is NULL there.
var failing = map[Dialect]string{
	PostgreSQL: "select 1 / 0 -- refused by a test",
	MySQL:      "select ~0 + 1 -- refused by a test",
	SQLite:     "select abs(-9223372036854775808) -- refused by a test",
}
