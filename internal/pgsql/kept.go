package pgsql

import (
	"encoding/hex"
	"encoding/json"

	"github.com/oncelib/once/store"
)

// Kept is the argument of SweepKept. SQLite understands it, too.
func Kept(rows []store.Expired) string {
	type kept struct {
		Scope string `json:"scope"`
		Key   string `json:"key"`
		Claim string `json:"claim"`
	}
	list := make([]kept, len(rows))
	for i, r := range rows {
		list[i] = kept{r.Scope, r.Key, hex.EncodeToString(r.Claim)}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}
