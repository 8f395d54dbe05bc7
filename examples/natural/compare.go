package natural

import (
	"context"

	"github.com/oncelib/once/store/sqlplane"
)

// Change says what a conditional write has found.
type Change int

const (
	ChangeFailed   Change = iota // see the error
	ChangeApplied                // this call has written
	ChangeRepeated               // an earlier call has written the same, and it is still stored
	ChangeRefused                // another state is stored, with another version
)

var changePrice = statement{
	postgres: `update price set amount = $1, version = $2 where sku = $3 and version = $4`,
	mysql:    `update price set amount = ?, version = ? where sku = ? and version = ?`,
}

// ChangePrice replaces the version before next.Version by next. The caller has read that version. If
// the price does not exist, the error is [sql.ErrNoRows].
func ChangePrice(ctx context.Context, db DB, d sqlplane.Dialect, next Price) (Change, error) {
	changed, err := isChanged(db.ExecContext(ctx, changePrice.on(d), next.Amount, next.Version, next.SKU, next.Version-1))
	if err != nil {
		return ChangeFailed, err
	}
	if changed {
		return ChangeApplied, nil
	}
	stored, err := ReadPrice(ctx, db, d, next.SKU)
	switch {
	case err != nil:
		return ChangeFailed, err
	case stored == next:
		return ChangeRepeated, nil
	default:
		return ChangeRefused, nil
	}
}
