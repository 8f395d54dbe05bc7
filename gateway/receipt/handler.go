package receipt

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"

	"github.com/oncelib/once/gateway"
)

// Handler returns an HTTP endpoint with which gateways can read the receipts r of a service if the gateways have no access to
// the database of the service:
//
//	GET  /once-receipt/OPERATION   looks: {"operation": "...", "state": "committed", "status": 201, "body": "BASE64"}
//	POST /once-receipt/OPERATION   settles: state is "committed" or "tombstone"
//
// The last element of the path is the ID of the operation. If the outcome of the operation is unknown, the answer is 503, and
// the reason is logged: as a warning, or as an error if the stored receipt is unusable. Make the endpoint reachable for
// gateways only, because a GET shows a stored answer, and a POST prevents an operation from committing.
func Handler(r gateway.Receipts) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var got gateway.Receipt
		var err error
		found := true
		operation := path.Base(req.URL.Path)
		if checkOperation(operation) != nil {
			http.Error(w, "the path does not end with the ID of an operation", http.StatusBadRequest)
			return
		}
		switch req.Method {
		case http.MethodGet:
			got, found, err = r.Look(req.Context(), operation)
		case http.MethodPost:
			got, err = r.Settle(req.Context(), operation)
		default:
			w.Header().Set("Allow", "GET, POST")
			http.Error(w, "only GET and POST are allowed", http.StatusMethodNotAllowed)
			return
		}
		var text []byte
		if err == nil {
			var a answer
			if a, err = answerOf(operation, got, found); err == nil {
				text, err = json.Marshal(a)
			}
		}
		if err != nil {
			level, text := slog.LevelWarn, "once: the receipt of an operation could not be read or settled, so its outcome is unknown for now"
			// The gateway asks again, but only a person can change this.
			if errors.Is(err, errUnusable) {
				level, text = slog.LevelError, "once: the stored receipt of an operation cannot be used, so its outcome stays unknown until an operator corrects this"
			}
			slog.Log(req.Context(), level, text, "operation", operation, "error", err)
			http.Error(w, "the outcome is unclear", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(text)
	})
}
