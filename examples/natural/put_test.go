package natural

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAPutIsSentAgain: the repetition of a PUT succeeds, and the PUT of another client does not.
func TestAPutIsSentAgain(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		_, err := SetPrice(t.Context(), g, g.dialect, Price{"book", 100, 7})
		must(t, err)
		mux := http.NewServeMux()
		mux.Handle("PUT /prices/{sku}", PutPrice(g, g.dialect))
		for i, c := range []struct {
			sku, match, body string
			want             int
		}{
			{"book", `"7"`, `{"amount": 200}`, http.StatusNoContent},
			{"book", `"7"`, `{"amount": 200}`, http.StatusNoContent},
			{"book", `"7"`, `{"amount": 300}`, http.StatusPreconditionFailed},
			{"book", `"8"`, `{"amount": 300}`, http.StatusNoContent},
			{"book", `"7"`, `{"amount": 200}`, http.StatusPreconditionFailed},
			{"pen", `"7"`, `{"amount": 200}`, http.StatusNotFound},
			{"book", ``, `{"amount": 200}`, http.StatusBadRequest},
			{"book", `"9"`, `{"amount"`, http.StatusBadRequest},
		} {
			r := httptest.NewRequest(http.MethodPut, "/prices/"+c.sku, strings.NewReader(c.body))
			r.Header.Set("If-Match", c.match)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%d. %+v: %d %s", i, c, w.Code, w.Body)
			}
			if etag := w.Header().Get("ETag"); w.Code == http.StatusNoContent && etag == c.match {
				t.Errorf("%d. ETag %s", i, etag)
			}
		}
	})
}
