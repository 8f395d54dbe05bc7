package killstorm

import (
	"database/sql"
	"encoding/json"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
)

// NewOtherBank returns the second bank, which takes part in the sagas of the first one: it makes deposits, and undoes them.
func NewOtherBank(s *sqlstore.Store) http.Handler {
	engine := once.New(s, once.Config{})
	deposits := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Wait: bankPatience}
	undos := deposits
	undos.Undoes = "POST " + depositsPath
	mux := http.NewServeMux()
	mux.Handle("POST "+depositsPath, oncehttp.Handler(engine, deposits, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		var t transfer
		err := json.NewDecoder(r.Body).Decode(&t)
		if err == nil {
			err = t.refusal("deposit")
		}
		if err == nil {
			err = write(r.Context(), s, tx, t, "deposit", t.Cents)
		}
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(deposit{t.Name, t.Cents})
	}))
	mux.Handle("POST "+undosPath, oncehttp.Handler(engine, undos, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		var made deposit // the stored deposit is the one that is undone, even if the request has other values
		err := json.NewDecoder(r.Response.Body).Decode(&made)
		if err == nil {
			err = write(r.Context(), s, tx, transfer{Name: made.Transfer}, "take back", -made.Cents)
		}
		if err != nil {
			oncehttp.Fail(w, r, err)
		}
	}))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}
