package probe

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	numbers = regexp.MustCompile(`([:=]\s*)([0-9]{1,15})(\s*(?:[,&}\]]|$))`)
	texts   = regexp.MustCompile(`(:\s*"[^"\\]*)(")`)
)

// otherBody returns a body with another meaning: its first number is one greater, or its first text is longer. otherBody returns nil if body has no
// number and no text.
func otherBody(body []byte) []byte {
	text := string(body)
	if at := numbers.FindStringSubmatchIndex(text); at != nil {
		n, err := strconv.ParseInt(text[at[4]:at[5]], 10, 64)
		if err == nil {
			return []byte(text[:at[4]] + strconv.FormatInt(n+1, 10) + text[at[5]:])
		}
	}
	if at := texts.FindStringSubmatchIndex(text); at != nil {
		return []byte(text[:at[3]] + "x" + text[at[4]:])
	}
	if strings.Contains(text, "=") && !strings.ContainsAny(text, "{<") { // a form
		return append([]byte(text), 'x')
	}
	return nil
}
