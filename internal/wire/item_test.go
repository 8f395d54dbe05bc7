package wire

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// The grammar of RFC 9651, sections 3.1.2 and 3.3, as a second opinion on the parser: what
// follows a String, and what it may be the value of. Neither the padding of a Byte Sequence
// nor the UTF-8 of a Display String is in it.
const (
	grammarString  = `"(?:[ !#-\[\]-~]|\\["\\])*"`
	grammarNumber  = `-?(?:[0-9]{1,15}|[0-9]{1,12}\.[0-9]{1,3})`
	grammarToken   = "[A-Za-z*][!#$%&'*+\\-.^_`|~0-9A-Za-z:/]*"
	grammarBytes   = `:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?:`
	grammarDisplay = `%"(?:[ !#$&-~]|%[0-9a-f]{2})*"`
	grammarItem    = grammarString + `|` + grammarNumber + `|` + grammarToken + `|` + grammarBytes + `|\?[01]|@-?[0-9]{1,15}|` + grammarDisplay
	grammarName    = `[a-z*][a-z0-9_\-.*]*`
)

var grammar = regexp.MustCompile(`^ *(` + grammarString + `)(?:; *` + grammarName + `(?:=(?:` + grammarItem + `))?)* *$`)

// TestKeyGrammar: each byte at each place of each type, and each length of number, is accepted
// as the grammar has it.
func TestKeyGrammar(t *testing.T) {
	accepted, refused := 0, 0
	judge := func(value string) {
		t.Helper()
		match := grammar.FindStringSubmatch(value)
		got, err := parseString(value)
		if (err == nil) != (match != nil) {
			t.Errorf("%q: %v, by the grammar it is %t", value, err, match != nil)
			return
		}
		if err != nil {
			refused++
			return
		}
		accepted++
		if want := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(match[1][1 : len(match[1])-1]); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
	for b := range 256 {
		c := string([]byte{byte(b)})
		for _, form := range []string{
			`%s`, `%s"k"`, `"%s"`, `"a%s"`, `"%sa"`, `"\%s"`, `"k"%s`, `"k"%s;a`, // a String
			`"k";%s`, `"k";%s=1`, `"k";a%s`, `"k";a%sb=1`, `"k";a=%s`, `"k";a=1%s`, `"k";a=1;%s`, // a parameter
			`"k";a="%s"`, `"k";a="\%s"`, `"k";a=t%s`, `"k";a=*%st`, `"k";a=?%s`, `"k";a=-%s`, `"k";a=1.%s`, `"k";a=@%s`, `"k";a=@1%s`, `"k";a=:YW%s=:`, `"k";a=%%"%s"`, // its value
		} {
			judge(fmt.Sprintf(form, c))
		}
	}
	for whole := range 18 {
		for part := range 6 {
			for _, sign := range []string{"", "-", "+", "--"} {
				number := sign + strings.Repeat("1", whole)
				judge(`"k";a=` + number)
				judge(`"k";a=@` + number)
				judge(`"k";a=` + number + "." + strings.Repeat("2", part))
			}
		}
	}
	if accepted < 1000 || refused < 1000 {
		t.Errorf("only %d are accepted and %d refused", accepted, refused)
	}
}
