package natural

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/oncelib/once/store/sqlplane"
)

// PutPrice handles PUT /prices/{sku}. The version that the client has seen is in If-Match: "7".
func PutPrice(db DB, d sqlplane.Dialect) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Amount int64 `json:"amount"`
		}
		seen, err := strconv.ParseInt(strings.Trim(r.Header.Get("If-Match"), `"`), 10, 64)
		if err = errors.Join(err, json.NewDecoder(r.Body).Decode(&body)); err != nil {
			http.Error(w, "send an amount, and in If-Match the version that you have seen", http.StatusBadRequest)
			return
		}
		change, err := ChangePrice(r.Context(), db, d, Price{r.PathValue("sku"), body.Amount, seen + 1})
		switch {
		case errors.Is(err, sql.ErrNoRows):
			http.NotFound(w, r)
		case err != nil:
			http.Error(w, "send it again", http.StatusInternalServerError)
		case change == ChangeRefused:
			http.Error(w, "the price has changed", http.StatusPreconditionFailed)
		default: // also for ChangeRepeated: the first answer was lost
			w.Header().Set("ETag", fmt.Sprintf(`"%d"`, seen+1))
			w.WriteHeader(http.StatusNoContent)
		}
	}
}
