package openapi

import "regexp"

// KeyPattern gives tests what is published of the form of a key.
func KeyPattern() *regexp.Regexp { return regexp.MustCompile("^(" + bareKey + "|" + quotedKey + ")$") }
