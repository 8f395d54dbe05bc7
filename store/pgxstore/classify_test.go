package pgxstore

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/store"
)

// closed is what pgx makes of an answer that was lost in mode exec.
type closed struct{}

func (closed) Error() string     { return "conn closed" }
func (closed) SafeToRetry() bool { return true }

// A "no" that is not the server's would be told to the client as "not applied",
// although the COMMIT may stand.
func TestOnlyTheServerSaysNo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want store.Kind
	}{
		"end of file":       {errors.New("unexpected EOF"), store.KindLost},
		"lost in mode exec": {closed{}, store.KindLost},
		"FATAL":             {&pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "25P03"}, store.KindLost},
		"FATAL in Russian":  {&pgconn.PgError{Severity: "ВАЖНО", SeverityUnlocalized: "FATAL", Code: "25P03"}, store.KindLost},
		"made by pgx":       {&pgconn.PgError{Severity: "FATAL", Code: "XX000"}, store.KindLost},
		"a constraint":      {&pgconn.PgError{Severity: "ОШИБКА", SeverityUnlocalized: "ERROR", Code: "23514"}, store.KindOther},
		"serialization":     {&pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "40001"}, store.KindRetry},
	} {
		if got := store.KindOf(classify(c.err, statement{})); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
