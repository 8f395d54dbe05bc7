package dialect

import "testing"

func TestNumbered(t *testing.T) {
	for query, want := range map[string]string{
		"select 1":                          "select 1",
		"?":                                 "$1",
		"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)": "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
		"select a from t where b = ? and c < ? limit 2": "select a from t where b = $1 and c < $2 limit 2",
	} {
		if got := Numbered(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}
