package request

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ReadFile reads the request in a file: an .http file, or a curl command for a shell.
func ReadFile(name string) (*Request, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w. Try: use a readable file", err)
	}
	if strings.HasSuffix(name, ".http") {
		return ParseFile(text)
	}
	words, err := split(string(text))
	if err != nil {
		return nil, err
	}
	return ParseCurl(words)
}

// split splits a command into its words. If a shell would expand a part of it, split returns an error.
func split(text string) (words []string, err error) {
	var word strings.Builder
	isOpen, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote == '\'' && c != '\'':
			word.WriteByte(c)
		case c == '\\' && i+1 < len(text) && (quote == 0 || strings.IndexByte("\"\\$`\n", text[i+1]) >= 0):
			if i++; text[i] != '\n' {
				isOpen = true
				word.WriteByte(text[i])
			}
		case c == '$' || c == '`' || quote == 0 && strings.IndexByte("|&;<>()", c) >= 0:
			return nil, fmt.Errorf("the curl command has the character %c, which a shell would interpret. Try: put the value into single quotation marks", c)
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			isOpen, quote = true, c
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			if isOpen {
				words = append(words, word.String())
				word.Reset()
			}
			isOpen = false
		default:
			isOpen = true
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, errors.New("the curl command has an opening quotation mark without a closing one. Try: run the same command in a shell")
	}
	if isOpen {
		words = append(words, word.String())
	}
	return words, nil
}
