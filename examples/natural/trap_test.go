package natural

import (
	"database/sql"
	"testing"
)

// TestRowsOfAnUpsertOnMySQL: their number does not tell whether anything has changed.
func TestRowsOfAnUpsertOnMySQL(t *testing.T) {
	for parameters, unchanged := range map[string]int64{"": 0, foundRows: 1} {
		onMySQL(t, parameters, func(t *testing.T, g testDB) {
			for _, c := range []struct{ version, rows int64 }{{1, 1}, {2, 2}, {2, unchanged}, {1, unchanged}} {
				if n := g.exec(t, setPrice.mysql, "book", amountOf(c.version), c.version); n != c.rows {
					t.Errorf("version %d: %d rows, want %d", c.version, n, c.rows)
				}
			}
		})
	}
}

// TestTextWithoutCaseOnMySQL: two sources that differ in case share a position, unless the column
// is binary as in the other tests.
func TestTextWithoutCaseOnMySQL(t *testing.T) {
	onMySQL(t, "", func(t *testing.T, g testDB) {
		second := func() bool {
			var moved bool
			for _, source := range []string{"Orders", "orders"} {
				must(t, inTx(t.Context(), g.DB, func(tx *sql.Tx) (err error) {
					moved, err = Advance(t.Context(), tx, g.dialect, source, 1)
					return err
				}))
			}
			return moved
		}
		if !second() {
			t.Error("a binary column does not tell Orders from orders")
		}
		g.exec(t, "delete from position")
		g.exec(t, "alter table position modify source varchar(100)")
		defer g.exec(t, "alter table position modify source varbinary(100)")
		if second() {
			t.Error("a column of text tells Orders from orders: correct docs/natural.md")
		}
	})
}

// TestADeletedRowForgetsItsVersion: an old state comes back.
func TestADeletedRowForgetsItsVersion(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		for _, version := range []int64{1, 2} {
			_, err := SetPrice(t.Context(), g, g.dialect, Price{"book", amountOf(version), version})
			must(t, err)
		}
		g.exec(t, "delete from price")
		old := Price{"book", amountOf(1), 1}
		if stored, err := SetPrice(t.Context(), g, g.dialect, old); err != nil || stored != old {
			t.Errorf("%+v, %v: correct docs/natural.md", stored, err)
		}
	})
}
