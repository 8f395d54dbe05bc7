package sqlguard

import (
	"database/sql/driver"
	"go/ast"
	"go/build"
	goparser "go/parser"
	gotoken "go/token"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// wrapped are the interfaces through which database/sql drives a driver, each
// with the type that implements it in front of the driver.
var wrapped = map[reflect.Type]reflect.Type{
	reflect.TypeFor[driver.Connector](): reflect.TypeFor[*connector](),

	reflect.TypeFor[driver.Conn]():               reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.ConnBeginTx]():        reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.ConnPrepareContext](): reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.ExecerContext]():      reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.QueryerContext]():     reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.NamedValueChecker]():  reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.Pinger]():             reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.SessionResetter]():    reflect.TypeFor[*conn](),
	reflect.TypeFor[driver.Validator]():          reflect.TypeFor[*conn](),

	reflect.TypeFor[driver.Tx](): reflect.TypeFor[*transaction](),

	reflect.TypeFor[driver.Stmt]():             reflect.TypeFor[*stmt](),
	reflect.TypeFor[driver.StmtExecContext]():  reflect.TypeFor[*stmt](),
	reflect.TypeFor[driver.StmtQueryContext](): reflect.TypeFor[*stmt](),
	reflect.TypeFor[driver.ColumnConverter]():  reflect.TypeFor[*stmt](), //nolint:staticcheck // drivers still have it

	reflect.TypeFor[driver.Rows]():                           reflect.TypeFor[*rows](),
	reflect.TypeFor[driver.RowsNextResultSet]():              reflect.TypeFor[*rows](),
	reflect.TypeFor[driver.RowsColumnTypeScanType]():         reflect.TypeFor[*rows](),
	reflect.TypeFor[driver.RowsColumnTypeDatabaseTypeName](): reflect.TypeFor[*rows](),
	reflect.TypeFor[driver.RowsColumnTypeLength]():           reflect.TypeFor[*rows](),
	reflect.TypeFor[driver.RowsColumnTypeNullable]():         reflect.TypeFor[*rows](),
	reflect.TypeFor[driver.RowsColumnTypePrecisionScale]():   reflect.TypeFor[*rows](),
}

// unwrapped are the other types of the package, and why they need no wrapper in
// front of the driver.
var unwrapped = map[string]string{
	"Driver":         "handed out as it is",
	"DriverContext":  "makes a connector, which is what is wrapped",
	"Execer":         "ExecerContext stands in for it",
	"Queryer":        "QueryerContext stands in for it",
	"Result":         "a finished statement; handed out as it is",
	"Valuer":         "implemented by arguments",
	"ValueConverter": "reached through ColumnConverter",
	"ScanContext":    "passed through ScanColumn",
	"Value":          "any argument",
	"NamedValue":     "data",
	"TxOptions":      "data",
	"IsolationLevel": "data",
	"RowsAffected":   "a Result",
	"NotNull":        "a ValueConverter",
	"Null":           "a ValueConverter",
}

// TestEveryInterfaceIsHandled fails where a new Go has an interface that would
// disappear behind the guard unnoticed.
func TestEveryInterfaceIsHandled(t *testing.T) {
	t.Parallel()
	handled := map[string]bool{}
	for face, by := range wrapped {
		handled[face.Name()] = true
		if !by.Implements(face) {
			t.Errorf("%s does not implement %s", by, face)
		}
	}
	names := exportedTypes(t, "database/sql/driver")
	for _, name := range names {
		if _, ok := unwrapped[name]; !ok && !handled[name] {
			t.Errorf("driver.%s is not handled. Try: implement it in front of the driver with an answer that is neutral"+
				" where the driver does not, or say in this test why it is not missed", name)
		}
	}
	if len(names) < len(wrapped) {
		t.Errorf("only %d types found, fewer than are handled", len(names))
	}
}

// exportedTypes returns the types that a package of the standard library exports
// with the Go that runs the test.
func exportedTypes(t *testing.T, path string) (names []string) {
	t.Helper()
	pkg, err := build.Import(path, "", 0)
	must(t, err)
	for _, name := range pkg.GoFiles {
		file, err := goparser.ParseFile(gotoken.NewFileSet(), filepath.Join(pkg.Dir, name), nil, goparser.SkipObjectResolution)
		must(t, err)
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() {
					names = append(names, spec.Name.Name)
				}
			}
		}
	}
	return names
}

// TestNeutralAnswers: what a driver does not offer must look not offered.
func TestNeutralAnswers(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.minimal = true
	base, err := Wrap(f, SQLite).Connect(t.Context())
	must(t, err)
	c := base.(*conn)
	if _, err := c.ExecContext(t.Context(), "SELECT 1", nil); err != driver.ErrSkip { //nolint:errorlint // identity counts
		t.Errorf("ExecContext() = %v", err)
	}
	if _, err := c.QueryContext(t.Context(), "SELECT 1", nil); err != driver.ErrSkip { //nolint:errorlint // identity counts
		t.Errorf("QueryContext() = %v", err)
	}
	unknown := make(chan int)
	if arg := (driver.NamedValue{Value: unknown}); c.CheckNamedValue(&arg) != nil || arg.Value != any(unknown) {
		t.Error("CheckNamedValue() converted what the statement will convert")
	}
	must(t, c.Ping(t.Context()))
	must(t, c.ResetSession(t.Context()))
	if !c.IsValid() {
		t.Error("IsValid() = false")
	}
	r := &rows{Rows: &fakeRows{f: f}, ctx: t.Context(), txn: new(Txn)}
	if r.HasNextResultSet() {
		t.Error("HasNextResultSet() = true")
	}
	r.Rows = plainRows{}
	if err := r.NextResultSet(); err != io.EOF { //nolint:errorlint // identity counts
		t.Errorf("NextResultSet() = %v", err)
	}
	if got := r.ColumnTypeScanType(0); got != reflect.TypeFor[any]() {
		t.Errorf("ColumnTypeScanType() = %v", got)
	}
	if _, ok := r.ColumnTypeLength(0); ok || r.ColumnTypeDatabaseTypeName(0) != "" || r.HasNextResultSet() {
		t.Error("a length, a type or a result out of nothing")
	}
	if _, ok := r.ColumnTypeNullable(0); ok {
		t.Error("nullability out of nothing")
	}
	if _, _, ok := r.ColumnTypePrecisionScale(0); ok {
		t.Error("precision out of nothing")
	}
	must(t, r.txn.Err())
}

type plainRows struct{ driver.Rows }

// TestDriversWithoutContexts are refused, and say so.
func TestDriversWithoutContexts(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.old = true
	err := open(t, f, SQLite).PingContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "*sqlguard.oldConn does not support contexts. Try: ") {
		t.Error(err)
	}
	wantCalls(t, f, "close")
	f = newFake()
	f.oldStmt = true
	_, err = open(t, f, SQLite).PrepareContext(t.Context(), "UPDATE t")
	if err == nil || !strings.Contains(err.Error(), "*sqlguard.oldStmt does not support contexts. Try: ") {
		t.Error(err)
	}
	wantCalls(t, f, "prepare UPDATE t", "stmt close")
}

// TestMinimalDriver: a driver that runs only what it has prepared works guarded, too.
func TestMinimalDriver(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.minimal = true
	tx, txn := begun(t, f, SQLite)
	_, err := tx.Exec("UPDATE t", 1)
	must(t, err)
	f.failing("stmt query SELECT 1", errDriver)
	_, _ = tx.Query("SELECT 1")
	if txn.Err() == nil || txn.Statements() != 2 {
		t.Errorf("Err() = %v after %d statements", txn.Err(), txn.Statements())
	}
	must(t, tx.Rollback())
	wantCalls(t, f, "prepare UPDATE t", "stmt exec UPDATE t", "prepare SELECT 1", "stmt query SELECT 1",
		"prepare ROLLBACK", "stmt exec ROLLBACK")
}

// TestConverterOfTooMany: database/sql asks a driver's converter for no argument
// beyond those the statement has, and neither may the guard, which hides their
// number from database/sql.
func TestConverterOfTooMany(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.convert, f.inputs = noConverter{}, 1
	base, err := f.Connect(t.Context())
	must(t, err)
	c := newConn(base.(baseConn), &connector{dialect: SQLite})
	guarded, err := c.BeginTx(new(Txn).Context(t.Context()), driver.TxOptions{})
	must(t, err)
	s, err := c.PrepareContext(t.Context(), "UPDATE t")
	must(t, err)
	if got := s.(*stmt).ColumnConverter(1); got != driver.DefaultParameterConverter {
		t.Errorf("got %T", got)
	}
	must(t, guarded.Rollback())
}
