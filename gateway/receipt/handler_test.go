package receipt_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncelib/once/gateway/receipt"
)

// row is a stored receipt: its header, and the size of its body.
type row struct {
	header string
	size   int64
}

// Scan implements sqlplane.Row.
func (r row) Scan(dest ...any) error {
	*dest[0].(*string), *dest[2].(*int), *dest[3].(*[]byte), *dest[5].(*int64) = "op", http.StatusCreated, []byte(r.header), r.size
	return nil
}

// TestHandlerLogsAReceiptThatCannotBeUsed: a gateway gets the same 503 for each failure. The log tells a failure that may pass from a stored receipt that
// only a person can correct, and names the reason.
func TestHandlerLogsAReceiptThatCannotBeUsed(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	_, good := receipt.Read(row{header: `{"Content-Type": "text/plain"}`, size: 3})
	if good != nil {
		t.Fatal(good)
	}
	_, torn := receipt.Read(row{header: `{"Content-Type": `})
	_, long := receipt.Read(row{size: 1 << 30})
	for _, c := range []struct {
		err   error
		level string
		says  string
	}{
		{errors.New("connection refused"), "WARN", "connection refused"},
		{torn, "ERROR", "Try: correct the column header"},
		{long, "ERROR", "Try: a larger MaxBody"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			var log bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			w := httptest.NewRecorder()
			receipt.Handler(fixed{err: c.err}).ServeHTTP(w, httptest.NewRequest(method, "/once-receipt/op", nil))
			if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "Try") {
				t.Errorf("%s, %v: %d %s", method, c.err, w.Code, w.Body)
			}
			if text := log.String(); !strings.Contains(text, "level="+c.level) || !strings.Contains(text, c.says) || strings.Count(text, "\n") != 1 {
				t.Errorf("%s, %v: the log says %s", method, c.err, text)
			}
		}
	}
}
