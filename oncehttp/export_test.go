package oncehttp

import "regexp"

// Problems gives tests the table of problems.
func Problems() map[string]Problem { return problems }

// KeyPattern gives tests what is published of the form of a key.
func KeyPattern() *regexp.Regexp { return regexp.MustCompile("^(" + bareKey + "|" + quotedKey + ")$") }
