package webhook

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/webhook"
)

// sender has the scheme of the sender, and its secrets.
type sender struct {
	scheme, file string
	hmac         webhook.Scheme
	encoding     string
}

// schemes are the named schemes.
var schemes = map[string]func(secrets ...string) *webhook.Verifier{
	"standard": webhook.Standard, "stripe": webhook.Stripe, "github": webhook.GitHub, "shopify": webhook.Shopify, "slack": webhook.Slack,
}

const schemeNames = "standard, stripe, github, shopify, slack or hmac"

func (s *sender) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&s.scheme, "scheme", "", "the `SCHEME` of the sender: "+schemeNames+" (required)")
	fs.StringVar(&s.file, "secret-file", "", "`FILE` with the secrets, one in each line: the current secret, and after a rotation the previous secret (required)")
	fs.StringVar(&s.hmac.Header, "signature-header", "", "with --scheme hmac: the `HEADER` with the signature")
	fs.StringVar(&s.hmac.Prefix, "signature-prefix", "", "with --scheme hmac: the prefix of each signature, such as sha256=")
	fs.StringVar(&s.encoding, "signature-encoding", "hex", "with --scheme hmac: the encoding of the signature, hex or base64")
	fs.StringVar(&s.hmac.Signed, "signed", "{body}", "with --scheme hmac: the text that is signed, such as v0:{timestamp}:{body}")
	fs.StringVar(&s.hmac.Timestamp, "timestamp-header", "", "with --scheme hmac: the `HEADER` with the time at which the request was sent")
	fs.StringVar(&s.hmac.ID, "id-at", "", "with --scheme hmac: the name of the header with the ID of the event, or a path such as .id in the body")
	fs.StringVar(&s.hmac.Type, "type-at", "", "with --scheme hmac: the name of the header with the type of the event, or a path such as .type in the body")
}

// verifier returns the verifier that the flags describe.
func (s *sender) verifier() (v *webhook.Verifier, err error) {
	if s.file == "" {
		return nil, cli.Usage("the secret is missing", "--secret-file FILE (other users can see a secret on the command line)")
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w. Try: use a readable file", err)
	}
	secrets := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	secrets = slices.DeleteFunc(secrets, func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(secrets) == 0 {
		return nil, cli.Usage("--secret-file: the file is empty", "use a file with the secret of the endpoint in its first line")
	}
	with := schemes[s.scheme]
	if s.scheme == "hmac" {
		s.hmac.Source = "sender"
		switch s.encoding {
		case "hex":
			s.hmac.Encoding = webhook.Hex
		case "base64":
			s.hmac.Encoding = webhook.Base64
		default:
			return nil, cli.Usage(fmt.Sprintf("the encoding %q does not exist", s.encoding), "--signature-encoding hex or base64")
		}
		with = s.hmac.Verifier
	}
	if with == nil {
		return nil, cli.Usage(fmt.Sprintf("the scheme %q does not exist", s.scheme), "--scheme "+schemeNames)
	}
	defer func() { // a constructor panics if a secret is wrong; its text does not show the secret
		if said := recover(); said != nil {
			what, try := words.Advice(strings.TrimPrefix(fmt.Sprint(said), "webhook: "))
			v, err = nil, cli.Usage(what, cmp.Or(try, "use the secret exactly as the sender shows it"))
		}
	}()
	return with(secrets...), nil
}

var verifyEntry = cli.Entry{
	Name: "webhook verify", Args: "[FILE]", Brief: "check the signature of a captured request",
	Help: `Reads a request from FILE, or from standard input: its headers, an empty line and the raw body. The request line, such
as "POST /hooks HTTP/1.1", may precede the headers. The command prints whether the signature is correct, which event the
request contains, and whether a service would refuse the request now because the request is too old.

  once webhook verify --scheme stripe --secret-file secret request.http

The body must consist of exactly the bytes that arrived: if a program parses the body and writes it again, the signature
changes.`,
	Make: func() cli.Runner { return new(verify) },
}

type verify struct {
	sender

	tolerance time.Duration
	output    cli.Form
}

func (c *verify) Flags(fs *pflag.FlagSet) {
	c.sender.Flags(fs)
	fs.DurationVar(&c.tolerance, "tolerance", 5*time.Minute, "the largest difference that the service accepts between the time of the request and the present time")
	c.output.Flag(fs)
}

// verdict is the result of a verification.
type verdict struct {
	Genuine bool   `json:"genuine"`
	Stale   bool   `json:"stale,omitempty"` // it is genuine, but a service refuses it now
	ID      string `json:"id,omitempty"`
	Type    string `json:"type,omitempty"`
	Bytes   int    `json:"bytes"`
}

func (c *verify) Run(_ context.Context, m *cli.Env, args []string) error {
	v, err := c.verifier()
	if err != nil {
		return err
	}
	in := io.Reader(os.Stdin)
	if len(args) > 0 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return fmt.Errorf("%w. Try: use a file with the captured request", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	header, body, err := readRequest(in)
	if err != nil {
		return err
	}
	said, err := c.judge(v, header, body)
	if c.output != cli.Table {
		if e := cli.WriteJSON(m.Stdout, c.output, said); e != nil {
			return e
		}
	}
	if err != nil {
		return err
	}
	if c.output == cli.Table {
		fmt.Fprintf(m.Stdout, "The signature is correct: event %s of type %s, %s.\n", words.OrDash(said.ID), words.OrDash(said.Type), words.Count(said.Bytes, "byte"))
		if said.Stale {
			fmt.Fprintf(m.Stdout, "A service would refuse this request now, because its time differs from the present time by more than %v.\n", c.tolerance)
		}
	}
	return nil
}

// judge verifies a request, however old it is.
func (c *verify) judge(v *webhook.Verifier, header http.Header, body []byte) (said verdict, err error) {
	said.Bytes = len(body)
	v.Tolerance = c.tolerance
	m, err := v.Verify(header, body)
	if errors.Is(err, webhook.ErrStale) {
		said.Stale = true
		v.Tolerance = 1 << 62
		m, err = v.Verify(header, body)
	}
	if err != nil {
		what, _ := words.Advice(strings.TrimPrefix(err.Error(), "webhook: "))
		return said, fmt.Errorf("%s. Try: use the secret of this endpoint, the raw bytes of the body as they arrived, and the --scheme of this sender", strings.TrimSuffix(what, "."))
	}
	said.Genuine, said.ID, said.Type = true, m.ID, m.Type
	return said, nil
}

const maxRequest = 16 << 20

// readRequest reads the headers and the raw body of a captured request.
func readRequest(in io.Reader) (http.Header, []byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return nil, nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	const try = "use a file with headers, an empty line and the raw body"
	if len(text) > maxRequest {
		return nil, nil, cli.Usage(fmt.Sprintf("the request has more than %d bytes", maxRequest), try)
	}
	if line, rest, found := bytes.Cut(text, []byte("\n")); found && isRequestLine(string(line)) {
		text = rest
	}
	end, length := bytes.Index(text, []byte("\n\n")), 2
	if crlf := bytes.Index(text, []byte("\r\n\r\n")); crlf >= 0 && (end < 0 || crlf < end) {
		end, length = crlf, 4
	}
	if end < 0 {
		return nil, nil, cli.Usage("the request has no empty line after its headers", try)
	}
	header, err := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(text[:end]), strings.NewReader("\r\n\r\n")))).ReadMIMEHeader()
	if err != nil {
		return nil, nil, cli.Usage("the headers of the request cannot be read: "+err.Error(), try)
	}
	return http.Header(header), text[end+length:], nil
}

// isRequestLine reports whether a line looks like "POST /hooks HTTP/1.1".
func isRequestLine(line string) bool {
	method, _, found := strings.Cut(line, " ")
	return found && method != "" && method == strings.ToUpper(method) && !strings.Contains(method, ":")
}
