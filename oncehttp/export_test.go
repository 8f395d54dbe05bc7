package oncehttp

// Problems gives tests the table of problems.
func Problems() map[string]Problem { return problems }
