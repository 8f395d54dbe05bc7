package natural

import (
	"database/sql"
	"errors"
	"testing"
)

func (g testDB) change(t *testing.T, next Price) Change {
	t.Helper()
	change, err := ChangePrice(t.Context(), g, g.dialect, next)
	if err != nil {
		t.Error(err)
	}
	return change
}

// TestCompareAndSet: a repetition and a change by another caller are told apart.
func TestCompareAndSet(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		_, err := SetPrice(t.Context(), g, g.dialect, Price{"book", 100, 1})
		must(t, err)
		mine, other, next := Price{"book", 200, 2}, Price{"book", 300, 2}, Price{"book", 300, 3}
		for i, c := range []struct {
			next Price
			want Change
		}{
			{next, ChangeRefused}, // version 2 is not there yet
			{mine, ChangeApplied},
			{mine, ChangeRepeated},
			{other, ChangeRefused},
			{next, ChangeApplied},
			{mine, ChangeRefused},
			{next, ChangeRepeated},
		} {
			if got := g.change(t, c.next); got != c.want {
				t.Errorf("%d. %+v: %d, want %d", i, c.next, got, c.want)
			}
		}
		if change, err := ChangePrice(t.Context(), g, g.dialect, Price{"pen", 1, 2}); change != ChangeFailed || !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("a price that does not exist: %d, %v", change, err)
		}
	})
}

// TestCompareAndSetHasOneWinner: of the clients, half ask for one amount and half for another. All of
// them send their request twice.
func TestCompareAndSetHasOneWinner(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		_, err := SetPrice(t.Context(), g, g.dialect, Price{"book", 0, 1})
		must(t, err)
		for version := int64(2); version < 8; version++ {
			var got [clients][2]Change
			atOnce(func(client int64) {
				for i := range got[client] {
					got[client][i] = g.change(t, Price{"book", client % 2, version})
				}
			})
			stored, err := ReadPrice(t.Context(), g, g.dialect, "book")
			must(t, err)
			if stored.Version != version {
				t.Fatalf("%+v, want version %d", stored, version)
			}
			applied := 0
			for client, changes := range got {
				for i, change := range changes {
					switch {
					case int64(client%2) != stored.Amount:
						if change != ChangeRefused {
							t.Errorf("client %d has lost and got %d", client, change)
						}
					case change == ChangeApplied && i == 0:
						applied++
					case change != ChangeRepeated:
						t.Errorf("client %d, call %d: %d", client, i, change)
					}
				}
			}
			if applied != 1 {
				t.Errorf("version %d was applied %d times", version, applied)
			}
		}
	})
}
