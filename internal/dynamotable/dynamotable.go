// Package dynamotable has the definition of dynamostore's table, for the command, which links no client of DynamoDB.
package dynamotable

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed table.json
var definition string

// Definition returns the definition of a table as JSON, as "aws dynamodb create-table --cli-input-json" takes it.
func Definition(table string) string {
	return strings.Replace(definition, `"TableName": "once"`, `"TableName": `+strconv.Quote(table), 1)
}
