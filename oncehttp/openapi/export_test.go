package openapi

import (
	"regexp"

	"github.com/oncelib/once/oncehttp"
)

// KeyPattern gives tests what is published of the form of a key.
func KeyPattern() *regexp.Regexp {
	f := formsOf(oncehttp.KeyFormat{})
	return regexp.MustCompile("^(" + f.bare + "|" + f.quoted + ")$")
}
