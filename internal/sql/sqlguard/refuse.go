package sqlguard

import "context"

// Refuse sets a function that is asked before each statement of the handler, between ForbidCommit and AllowCommit. If it returns
// true, a failing statement is sent to the database instead, so that the transaction is in the state after a failed
// statement. It is for tests.
func (t *Txn) Refuse(f func() bool) { t.real().refusal = f }

// Exempt removes the function that Refuse has set, and returns it. Until the function is set again, statements belong to the store.
func (t *Txn) Exempt() (asked func() bool) {
	t = t.real()
	asked, t.refusal = t.refusal, nil
	return asked
}

// refused sends a failing statement instead of the user's statement, if a test wants this, and returns its error.
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

// skipped records that the driver wants the statement prepared, so that the function of Refuse is not asked twice.
func (t *Txn) skipped() { t.asked = t.refusal != nil }

// failing contains statements that fail when they run. SQLite and MySQL use a value that is out of range, because a division by
// zero is NULL there.
var failing = map[Dialect]string{
	PostgreSQL: "select 1 / 0 -- refused by a test",
	MySQL:      "select ~0 + 1 -- refused by a test",
	SQLite:     "select abs(-9223372036854775808) -- refused by a test",
}
