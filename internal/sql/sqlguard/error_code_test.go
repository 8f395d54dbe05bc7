package sqlguard

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// The shapes of three drivers' errors.
type (
	mattnNo    int
	mattnError struct {
		Code         mattnNo
		ExtendedCode mattnNo
	}
	ncrucesCode  uint16
	ncrucesError struct{ code ncrucesCode }
	embedded     struct{ *mattnError }
)

func (mattnError) Error() string                  { return "mattn" }
func (*ncrucesError) Error() string               { return "ncruces" }
func (e *ncrucesError) Code() uint8               { return uint8(e.code) }
func (e *ncrucesError) ExtendedCode() ncrucesCode { return e.code }

func TestSQLiteCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		code int
		ok   bool
	}{
		{"nil", nil, 0, false},
		{"none", io.EOF, 0, false},
		{"modernc", resultCode(2067), 2067, true},
		{"mattn", mattnError{Code: 19, ExtendedCode: 2067}, 2067, true},
		{"mattn, pointer", &mattnError{Code: 19}, 19, true},
		{"ncruces", &ncrucesError{2067}, 2067, true},
		{"wrapped", fmt.Errorf("insert: %w", resultCode(13)), 13, true},
		{"joined", errors.Join(io.EOF, fmt.Errorf("insert: %w", mattnError{Code: 13})), 13, true},
		{"embedded nil", embedded{}, 0, false},
		{"typed nil", (*mattnError)(nil), 0, false},
	} {
		if code, ok := SQLiteCode(tt.err); code != tt.code || ok != tt.ok {
			t.Errorf("%s: got %d, %v", tt.name, code, ok)
		}
	}
}

func (embedded) Error() string { return "embedded" }

func TestSQLState(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":      io.EOF,
		"23505": errors.Join(io.EOF, fmt.Errorf("insert: %w", coded("23505"))),
	} {
		if got := SQLState(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := SQLState(nil); got != "" {
		t.Errorf("nil: %q", got)
	}
}

func TestSeverityOfAnError(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":      io.EOF,
		"FATAL": fmt.Errorf("commit: %w", &fatal{Severity: "FATAL"}),
		"PANIC": &fatal{Severity: "PANIK", SeverityUnlocalized: "PANIC"},
	} {
		if got := severityOf(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
