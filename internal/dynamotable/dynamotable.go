// Package dynamotable contains the definition of dynamostore's table. The command uses it without a client of DynamoDB.
package dynamotable

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed table.json
var definition string

// Definition returns the definition of a table as JSON, in the form of "aws dynamodb create-table --cli-input-json".
func Definition(table string) string {
	return strings.Replace(definition, `"TableName": "once"`, `"TableName": `+strconv.Quote(table), 1)
}
