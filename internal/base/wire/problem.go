package wire

import "strings"

// ProblemType returns the URI of the type of a problem with one of our codes.
func ProblemType(code string) string {
	return "https://oncelib.dev/problems/" + slug.Replace(strings.ToLower(code))
}

var slug = strings.NewReplacer(".", "/", "_", "-")
