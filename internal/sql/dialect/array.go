package dialect

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Arrays are rows as arguments of a statement of PostgreSQL that takes an array for each column, as in
// "from unnest(?::text[], ?::bytea[], ?::bigint[])": its text is the same for any number of rows. They are
// literals, because not every driver knows arrays. Values are string, []byte, int64 and bool.
func Arrays(rows [][]any) []any {
	if len(rows) == 0 {
		return nil
	}
	columns := make([][]byte, len(rows[0]))
	for _, row := range rows {
		for c, v := range row {
			columns[c] = appendElement(append(columns[c], ','), v)
		}
	}
	args := make([]any, len(columns))
	for c, elements := range columns {
		elements[0] = '{' // in place of the first comma
		args[c] = string(append(elements, '}'))
	}
	return args
}

// quoted escapes the characters that have a meaning in an array literal.
var quoted = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// appendElement appends an element of an array literal.
func appendElement(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(append(append(b, '"'), quoted.Replace(v)...), '"')
	case []byte:
		return append(hex.AppendEncode(append(b, `"\\x`...), v), '"')
	case int64:
		return strconv.AppendInt(b, v, 10)
	case bool:
		return strconv.AppendBool(b, v)
	}
	panic(fmt.Sprintf("dialect: an array contains a value of type %T, which the package cannot send to the database", v)) // a mistake in this module
}
