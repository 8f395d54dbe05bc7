package dialect

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Arrays returns rows as arguments of a statement of PostgreSQL with one array for each column, such as "from
// unnest(?::text[], ?::bytea[], ?::bigint[])". The text of such a statement is the same for any number of rows. The arrays
// are literals, because not every driver supports arrays. The values are string, []byte, int64 and bool.
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
		elements[0] = '{' // replaces the first comma
		args[c] = string(append(elements, '}'))
	}
	return args
}

// quoted escapes the special characters of an array literal.
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
