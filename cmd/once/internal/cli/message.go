package cli

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/oncelib/once"
)

// KeyFile is the flag --key-file: a file with the key that encrypts the service's messages and requests.
type KeyFile struct{ path string }

// Flags adds the flag.
func (f *KeyFile) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, "key-file", "", "the `FILE` with the encryption key of the service, in hexadecimal; needed if the service encrypts its stored data")
}

// Encrypter reads the file. It returns nil without the flag.
func (f *KeyFile) Encrypter() (once.Encrypter, error) {
	if f.path == "" {
		return nil, nil //nolint:nilnil // see above
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("--key-file: %w. Try: use a readable file", err)
	}
	const try = "use a file that contains the key of once.NewEncrypter, written with 32, 48 or 64 hexadecimal digits"
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil { // the error quotes the key
		return nil, Usage("--key-file: the file must contain one line of hexadecimal digits", try)
	}
	e, err := once.NewEncrypter(key)
	if err != nil {
		return nil, Usage(fmt.Sprintf("--key-file: the key has %d bytes, and must have 16, 24 or 32 bytes", len(key)), try)
	}
	return e, nil
}

// MessageFlags are the flags of a command that shows one message.
type MessageFlags struct {
	DB      string
	Output  Form
	Payload bool
	Key     KeyFile
}

// Flags adds the flags.
func (c *MessageFlags) Flags(fs *pflag.FlagSet) {
	DBFlag(fs, &c.DB)
	fs.BoolVar(&c.Payload, "payload", false, "also print the payload and the headers")
	c.Key.Flags(fs)
	c.Output.Flag(fs)
}

// PrintBody ends the text of a message.
func (c *MessageFlags) PrintBody(w io.Writer, t *tabwriter.Writer, payload []byte) error {
	if err := t.Flush(); err != nil || !c.Payload {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", body(payload))
	return err
}

// body is a payload for a terminal: text as it is, other bytes quoted.
func body(payload []byte) string {
	text := string(payload)
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
		return text
	}
	return strconv.Quote(text)
}
