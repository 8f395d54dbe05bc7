package oncehttp

// FirstSent gives tests the parser of a header.
var FirstSent = firstSent

// Problems gives tests the table of problems.
func Problems() map[string]Problem { return problems }
