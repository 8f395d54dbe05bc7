package natural

import (
	"context"

	"github.com/oncelib/once/store/sqlplane"
)

// Price is a row of
//
//	create table price (sku varchar(50) primary key, amount bigint not null, version bigint not null)
//
// Each state of a row has a version of its own, and later states have higher versions.
type Price struct {
	SKU             string
	Amount, Version int64
}

var setPrice = statement{
	postgres: `insert into price (sku, amount, version) values ($1, $2, $3)
		on conflict (sku) do update set amount = excluded.amount, version = excluded.version
		where excluded.version > price.version`,
	// MySQL assigns from left to right. So version comes last: earlier assignments still see the old version.
	mysql: `insert into price (sku, amount, version) values (?, ?, ?)
		on duplicate key update
			amount = if(values(version) > version, values(amount), amount),
			version = greatest(values(version), version)`,
}

var selectPrice = statement{
	postgres: `select sku, amount, version from price where sku = $1`,
	mysql:    `select sku, amount, version from price where sku = ? for update`, // reads the newest state, even late in a transaction
}

// SetPrice stores p, unless the stored version is the same or newer. It returns the row that is stored afterwards: p, also if the call is repeated,
// or a newer version.
func SetPrice(ctx context.Context, db DB, d sqlplane.Dialect, p Price) (Price, error) {
	if _, err := db.ExecContext(ctx, setPrice.on(d), p.SKU, p.Amount, p.Version); err != nil {
		return Price{}, err
	}
	return ReadPrice(ctx, db, d, p.SKU)
}

// ReadPrice returns the stored price. It fails with [sql.ErrNoRows] if the price does not exist.
func ReadPrice(ctx context.Context, db DB, d sqlplane.Dialect, sku string) (p Price, err error) {
	err = db.QueryRowContext(ctx, selectPrice.on(d), sku).Scan(&p.SKU, &p.Amount, &p.Version)
	return p, err
}
