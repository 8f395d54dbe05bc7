package oncehttp

// Problems gives tests the table of problems.
func Problems() map[ProblemCode]Problem { return problems }
