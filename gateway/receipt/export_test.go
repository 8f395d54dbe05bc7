package receipt

import "github.com/oncelib/once/store/sqlplane"

// ParseAnswer is parseAnswer.
var ParseAnswer = parseAnswer

// Read is Table.read of a table with the default configuration.
func Read(row sqlplane.Row) (Row, error) {
	return (&Table{maxBody: defaultBody}).read(row)
}
