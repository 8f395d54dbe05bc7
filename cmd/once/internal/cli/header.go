package cli

import (
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// HeaderFlag adds a flag with headers, such as --header, to a command that sends requests.
func HeaderFlag(fs *pflag.FlagSet, name string, header http.Header, usage string) {
	fs.Func(name, usage, func(line string) error { return addHeader(header, line) })
}

// addHeader adds one header line. If line is @FILE, it adds all lines of the file.
func addHeader(header http.Header, line string) error {
	text, isFile := strings.CutPrefix(line, "@")
	if isFile {
		b, err := os.ReadFile(text)
		if err != nil {
			return err
		}
		text = string(b)
	}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); ok && name != "" {
			header.Add(name, strings.TrimSpace(value))
		} else if strings.TrimSpace(line) != "" {
			return errors.New("a header must have the form NAME: VALUE") // the value is not repeated: it may be a secret
		}
	}
	return nil
}
