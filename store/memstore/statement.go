package memstore

import (
	"errors"
	"fmt"

	"github.com/oncelib/once/store"
)

// exec executes a statement of Change.Writes.
func (t *Tx) exec(s store.Statement) error {
	key, value, err := arguments(s)
	if err != nil {
		return fmt.Errorf("memstore: the statement %q is not valid: %w", s.SQL, err)
	}
	rows := 1
	switch s.SQL {
	case "put":
		t.writes = append(t.writes, cell{key: key, value: value})
	case "insert":
		if err := t.insert(key, value); err != nil {
			return err
		}
	case "delete":
		// The delete counts rows, so it must be a read that the commit validates.
		if _, ok := t.see(key); !ok {
			rows = 0
		}
		t.writes = append(t.writes, cell{key: key, gone: true})
	}
	if s.Rows != 0 && s.Rows != rows {
		return fmt.Errorf("%w: memstore: the statement %q has changed %d rows, not %d", store.ErrRows, s.SQL, rows, s.Rows)
	}
	return nil
}

var errStatement = errors.New(`memstore has only three statements. Try: "put" or "insert" with a key and a value, or "delete" with a key, where all arguments are strings`)

func arguments(s store.Statement) (key, value string, err error) {
	wants := 2
	switch s.SQL {
	case "put", "insert":
	case "delete":
		wants = 1
	default:
		return "", "", errStatement
	}
	if len(s.Args) != wants {
		return "", "", errStatement
	}
	key, ok := s.Args[0].(string)
	if ok && wants == 2 {
		value, ok = s.Args[1].(string)
	}
	if !ok {
		return "", "", errStatement
	}
	return key, value, nil
}
