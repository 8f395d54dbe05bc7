package outbox

import (
	"cmp"
	"context"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/store/sqlplane"
)

// By returns a copy of the outbox. The parameter who is the name of the person or service that uses the copy.
// The methods Pause, Resume, Skip, Resend and Forget of the returned Box write an entry with the name who to
// the audit (a table of the changes that people have made), in the same transaction as the change. The entry in
// the audit has the reason that was passed to the method. Resume has no parameter for a reason, so the entry of
// Resume has the reason that was passed to By. The database needs the tables of operate.Migrations. Without By,
// nothing is written to the audit.
func (b *Box[TX]) By(who, reason string) *Box[TX] {
	audited := *b
	audited.who, audited.reason = who, reason
	return &audited
}

// audit writes an entry to the audit. Without By, audit does nothing.
func (b *Box[TX]) audit(ctx context.Context, r sqlplane.Runner, action, topic, key, reason, detail string) error {
	if b.who == "" {
		return nil
	}
	e := audit.Entry{Who: b.who, Action: action, Scope: topic, Reason: cmp.Or(reason, b.reason), Detail: detail}
	// The audit outlives the messages, so it stores only a hash of the key.
	if key != "" {
		e.KeyHash = once.KeyHash(key)
	}
	_, err := r.Exec(ctx, audit.Insert(b.db.Dialect(), e))
	return err
}
