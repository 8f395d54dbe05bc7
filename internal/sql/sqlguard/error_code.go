package sqlguard

import (
	"errors"
	"reflect"
	"strings"

	"github.com/oncelib/once/store"
)

// SQLState returns the SQLSTATE of an error, or "". pgx and lib/pq have a method for it.
func SQLState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// SQLiteCode returns the result code of an error of SQLite, in its extended form if the driver has it. The lowest byte is the
// primary code. It supports the errors of modernc.org/sqlite (a method Code), github.com/ncruces/go-sqlite3 (methods with
// special types) and github.com/mattn/go-sqlite3 (fields).
func SQLiteCode(err error) (code int, ok bool) {
	walk(err, func(err error) bool {
		code, ok = sqliteCode(err)
		return ok
	})
	return code, ok
}

func sqliteCode(err error) (code int, ok bool) {
	if e, ok := err.(interface{ Code() int }); ok {
		return e.Code(), true
	}
	v := reflect.ValueOf(err)
	// By reflection, because this package must not import the drivers.
	if m := v.MethodByName("ExtendedCode"); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
		return integer(m.Call(nil)[0])
	}
	if code, ok := integer(field(v, "ExtendedCode")); ok && code != 0 {
		return code, true
	}
	return integer(field(v, "Code"))
}

// MySQLCode returns the number of an error of a MySQL or MariaDB server. It supports the errors of
// github.com/go-sql-driver/mysql: the fields Number and Message.
func MySQLCode(err error) (code int, ok bool) {
	walk(err, func(err error) bool {
		code, ok = mysqlCode(err)
		return ok
	})
	return code, ok
}

func mysqlCode(err error) (code int, ok bool) {
	v := reflect.ValueOf(err)
	// Other types have a field Number as well, but not a text Message next to it.
	if field(v, "Message").Kind() == reflect.String {
		return integer(field(v, "Number"))
	}
	return 0, false
}

// Said returns the error of the database itself if err is an error of a store. The text that a store adds is for services.
func Said(err error) error {
	var e *store.Error
	if !errors.As(err, &e) {
		return err
	}
	own := e.Err
	walk(err, func(err error) bool {
		_, isPostgres := err.(interface{ SQLState() string })
		_, isMySQL := mysqlCode(err)
		_, isSQLite := sqliteCode(err)
		if isPostgres || isMySQL || isSQLite {
			own = err
			return true
		}
		return false
	})
	return own
}

// IsMissing reports whether a table or a column does not exist, because a migration was not applied yet.
func IsMissing(err error) bool {
	if state := SQLState(err); state != "" {
		return state == "42P01" || state == "42703"
	}
	if code, ok := MySQLCode(err); ok {
		return code == 1146 || code == 1054
	}
	// SQLite has one code for all errors of this kind, so the text decides.
	return err != nil && (strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "no such column"))
}

// Missing returns an error for which IsMissing is true: the table does not exist.
func Missing(table string) error { return missingError(table) }

type missingError string

func (e missingError) Error() string { return "the table " + string(e) + " does not exist" }

func (missingError) SQLState() string { return "42P01" }

// severityOf returns the severity of a PostgreSQL error, in English if the driver has it in English.
func severityOf(err error) (severity string) {
	walk(err, func(err error) bool {
		for _, name := range []string{"SeverityUnlocalized", "Severity"} {
			if f := field(reflect.ValueOf(err), name); f.Kind() == reflect.String && f.Len() > 0 {
				severity = f.String()
				return true
			}
		}
		return false
	})
	return severity
}

// walk visits an error and its wrapped errors, the outermost first, until visit returns true.
func walk(err error, visit func(error) bool) bool {
	if err == nil {
		return false
	}
	if visit(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // this function unwraps the errors itself
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if walk(inner, visit) {
				return true
			}
		}
	}
	return false
}

// field returns a field of the struct that v is or points to. It returns the zero Value if no such field exists.
func field(v reflect.Value, name string) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	f, ok := v.Type().FieldByName(name)
	if !ok || len(f.Index) > 1 { // an embedded field may belong to a nil pointer
		return reflect.Value{}
	}
	return v.FieldByIndex(f.Index)
}

func integer(v reflect.Value) (int, bool) {
	switch {
	case !v.IsValid():
		return 0, false
	case v.CanInt():
		return int(v.Int()), true
	case v.CanUint():
		return int(v.Uint()), true
	default:
		return 0, false
	}
}
