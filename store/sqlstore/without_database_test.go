package sqlstore

// The tests with databases are in integration/sqlstore: "make test-of DIR=store/sqlstore" runs them after these.

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// state is an error of a driver of PostgreSQL.
type state string

func (s state) Error() string    { return "state " + string(s) }
func (s state) SQLState() string { return string(s) }

// TestOpenNamesUnknownDrivers: a driver whose dialect cannot be known is refused, with the function that is told the dialect.
func TestOpenNamesUnknownDrivers(t *testing.T) {
	t.Parallel()
	if _, err := Open("oracle", "x"); err == nil || !strings.Contains(err.Error(), "Try: sqlstore.OpenDB") {
		t.Error(err)
	}
	for name, d := range drivers {
		if guards[d].String() == "" || !slices.ContainsFunc(dialects, func(one database) bool { return one.name == d }) {
			t.Errorf("driver %s has no guard or no dialect", name)
		}
	}
}

// TestOpenAllowsSeveralStatements: a data source name of MySQL allows several statements in a packet unless it says whether it does. The name of the
// database may have a slash before it and none after it.
func TestOpenAllowsSeveralStatements(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"u:p@tcp(h:1)/app": "u:p@tcp(h:1)/app?multiStatements=true&interpolateParams=true",
		"u:p@unix(/run/mysql.sock)/app?charset=utf8mb4":          "u:p@unix(/run/mysql.sock)/app?charset=utf8mb4&multiStatements=true&interpolateParams=true",
		"u:p?multiStatements=@tcp(h:1)/app":                      "u:p?multiStatements=@tcp(h:1)/app?multiStatements=true&interpolateParams=true",
		"u:p@tcp(h:1)/app?interpolateParams=false":               "u:p@tcp(h:1)/app?interpolateParams=false&multiStatements=true",
		"u:p@tcp(h:1)/app?multiStatements=false":                 "",
		"u:p@tcp(h:1)/app?charset=utf8mb4&multiStatements=false": "",
	} {
		got, asks := severalInPacket(name)
		if asks != (want != "") || asks && got != want {
			t.Errorf("%s: %s, %v", name, got, asks)
		}
	}
}

// TestErrorsBeforeTheCommit: whatever a statement fails with before COMMIT, the kind says that nothing was applied; a connection that was lost is never a lost
// commit.
func TestErrorsBeforeTheCommit(t *testing.T) {
	t.Parallel()
	s := &Store{dialect: postgres}
	for name, c := range map[string]struct {
		err    error
		record bool // it was the statement of the record
		want   store.Kind
		is     error
	}{
		"the handler has ended it":       {sql.ErrTxDone, false, store.KindMisused, errOver},
		"a connection was lost":          {driver.ErrBadConn, false, store.KindUnavailable, nil},
		"an unknown error":               {errors.New("x"), false, store.KindUnavailable, nil},
		"a deadlock":                     {state("40P01"), false, store.KindRetry, nil},
		"the record is there":            {state("23505"), true, store.KindTaken, nil},
		"a row of the handler is there":  {state("23505"), false, store.KindOther, sqlplane.ErrDuplicate},
		"no table for the record":        {state("42P01"), true, store.KindUnavailable, store.ErrNotMigrated},
		"no table of the handler's":      {state("42P01"), false, store.KindOther, nil},
		"the server ends the connection": {state("57P01"), false, store.KindUnavailable, nil},
		"it was too large":               {state(postgresLimit), true, store.KindOther, nil},
	} {
		err := s.failed(fmt.Errorf("wrapped: %w", c.err), c.record)
		if store.KindOf(err) != c.want || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v is %s, want %s", name, err, store.KindOf(err), c.want)
		}
	}
	if err := s.failed(state("42P01"), true); !strings.Contains(err.Error(), "Try: once migrate up") {
		t.Error(err)
	}
}

// TestErrorsOfTheCommit: only what certainly was not applied has a kind that says so. All else is lost, and must be asked for.
func TestErrorsOfTheCommit(t *testing.T) {
	t.Parallel()
	refused := &sqlguard.RefusedError{Refused: "COMMIT", First: &sqlguard.StatementError{Err: errors.New("x")}}
	for name, c := range map[string]struct {
		err  error
		want store.Kind
	}{
		"no answer":                {&sqlguard.CommitError{Err: driver.ErrBadConn, InDoubt: true}, store.KindLost},
		"an unknown error":         {errors.New("x"), store.KindLost},
		"the end of a context":     {context.DeadlineExceeded, store.KindLost},
		"refused by the guard":     {refused, store.KindAborted},
		"ended underneath":         {&sqlguard.CommitError{Err: sqlguard.ErrEnded, InDoubt: true}, store.KindEnded},
		"ended by the handler":     {sql.ErrTxDone, store.KindMisused},
		"a failed serialization":   {&sqlguard.CommitError{Err: state("40001")}, store.KindRetry},
		"rolled back, and cut off": {&sqlguard.CommitError{Err: state("57P01")}, store.KindUnavailable},
		"of its group":             {&store.Error{Kind: store.KindBusy, Err: errors.New("x")}, store.KindBusy},
	} {
		if err := (&Store{dialect: postgres}).lost(c.err); store.KindOf(err) != c.want {
			t.Errorf("%s: %v is %s, want %s", name, err, store.KindOf(err), c.want)
		}
	}
}

// TestSizeOfAChangeIsAnUpperBound: a value takes twice its size on its way to MySQL, and every value of a record counts.
func TestSizeOfAChangeIsAnUpperBound(t *testing.T) {
	t.Parallel()
	empty := sizeMySQL(store.Change{})
	const n = 1000
	text, bytes := strings.Repeat("x", n), make([]byte, n)
	for name, c := range map[string]store.Change{
		"scope": {ID: store.ID{Scope: text}}, "key": {ID: store.ID{Key: text}}, "nonce": {Next: store.Record{Nonce: bytes}}, "fingerprint": {Next: store.Record{Fingerprint: bytes}},
		"body": {Next: store.Record{Result: store.Result{Body: bytes}}}, "request": {Next: store.Record{Request: bytes}}, "trace": {Next: store.Record{Trace: text}},
		"name": {Next: store.Record{Name: text}}, "recovery point": {Next: store.Record{RecoveryPoint: text}}, "data": {Next: store.Record{Data: bytes}},
		"header": {Next: store.Record{Result: store.Result{Header: []store.Field{{Name: text[:n/2], Value: text[:n/2]}}}}},
	} {
		if got := sizeMySQL(c) - empty; got < 2*n || got > 2*n+10 {
			t.Errorf("%s: %d bytes more for %d", name, got, n)
		}
	}
	if got := largestValue([]any{1, "abc", []byte("abcd"), nil}); got != 4 {
		t.Errorf("%d", got)
	}
}

// TestExpiredRecordIsAbsent: a record whose retention is over is absent, and keeps its nonce, by which its row is replaced.
func TestExpiredRecordIsAbsent(t *testing.T) {
	t.Parallel()
	done := store.Record{State: store.StateDone, Nonce: []byte("n"), Name: "pay"}
	if got := (row{Record: done}).live(); got.State != store.StateDone || got.Name != "pay" {
		t.Errorf("%+v", got)
	}
	if got := (row{Record: done, expired: true}).live(); got.State != store.StateAbsent || string(got.Nonce) != "n" || got.Name != "" {
		t.Errorf("%+v", got)
	}
	if got := (row{}).live(); got.State != store.StateAbsent || got.Nonce != nil {
		t.Errorf("%+v", got)
	}
	for d, want := range map[time.Duration]any{0: nil, store.Forever: nil, 1500 * time.Microsecond: 1.5} {
		if got := millis(d); got != want {
			t.Errorf("%v is %v, want %v", d, got, want)
		}
	}
}
