package request

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
)

// curl is the state of reading a curl command.
type curl struct {
	Request

	urls     []*url.URL
	data     []string
	hasData  bool
	isJSON   bool
	isForm   bool
	readFile func(name string) ([]byte, error)
}

// flags are the supported options without a value. All except --compressed have no effect here: redirects are never followed, and answers are never
// decompressed.
var flags = map[string]bool{
	"--silent": true, "-s": true, "--show-error": true, "-S": true, "--include": true, "-i": true, "--verbose": true, "-v": true,
	"--location": true, "-L": true, "--compressed": true, "--fail": true, "-f": true, "--globoff": true, "-g": true, "--no-progress-meter": true,
}

// long are the options with a value, by their short names.
var long = map[string]string{
	"-X": "--request", "-H": "--header", "-d": "--data", "-u": "--user", "-b": "--cookie", "-A": "--user-agent", "-e": "--referer",
}

var options = map[string]func(c *curl, value string) error{
	"--request":        (*curl).method,
	"--url":            (*curl).place,
	"--header":         (*curl).header,
	"--data":           func(c *curl, v string) error { return c.add(v, true) },
	"--data-ascii":     func(c *curl, v string) error { return c.add(v, true) },
	"--data-binary":    func(c *curl, v string) error { return c.add(v, false) },
	"--data-raw":       func(c *curl, v string) error { return c.raw(v) },
	"--data-urlencode": (*curl).encoded,
	"--json":           (*curl).json,
	"--user": func(c *curl, v string) error {
		if !strings.Contains(v, ":") {
			return errors.New("--user has no password, and curl would ask for the password. Try: --user NAME:PASSWORD, or --user NAME: for an empty password")
		}
		return addHeader(c.Header, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(v)))
	},
	"--cookie": func(c *curl, v string) error {
		if !strings.Contains(v, "=") {
			return errors.New("--cookie names a file. Try: --cookie 'NAME=VALUE'")
		}
		return addHeader(c.Header, "Cookie: "+v)
	},
	"--user-agent": func(c *curl, v string) error { return addHeader(c.Header, "User-Agent: "+v) },
	"--referer":    func(c *curl, v string) error { return addHeader(c.Header, "Referer: "+v) },
}

// ParseCurl reads the words of a curl command, of which the first is curl. An unknown option is an error.
func ParseCurl(words []string) (*Request, error) {
	return parseCurl(words, os.ReadFile)
}

func parseCurl(words []string, readFile func(string) ([]byte, error)) (*Request, error) {
	if len(words) == 0 || strings.TrimSuffix(path.Base(words[0]), ".exe") != "curl" {
		return nil, errors.New("the command line has no curl command after --. Try: once check -- curl http://localhost:8080/charges --json '{\"amount\":5000}'")
	}
	c := &curl{readFile: readFile}
	c.Header = http.Header{}
	for rest := words[1:]; len(rest) > 0; {
		taken, err := c.word(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[taken:]
	}
	return c.end()
}

// word reads the first of some words, with its value, and returns how many words these are.
func (c *curl) word(words []string) (taken int, err error) {
	word := words[0]
	switch {
	case !strings.HasPrefix(word, "-") || word == "-":
		return 1, c.place(word)
	case strings.HasPrefix(word, "--"):
		if flags[word] {
			return 1, nil
		}
		return c.option(word, words, "", 1)
	}
	for i := 1; i < len(word); i++ { // short options may be joined in one word, and the last one may be followed by its value
		name := "-" + word[i:i+1]
		if !flags[name] {
			return c.option(name, words, word[i+1:], 1)
		}
	}
	return 1, nil
}

func (c *curl) option(name string, words []string, attached string, taken int) (int, error) {
	full := name
	if l, ok := long[name]; ok {
		full = l
	}
	set, ok := options[full]
	if !ok {
		name, _, _ = strings.Cut(name, "=") // a secret may follow the name
		return 0, fmt.Errorf("this command does not support the curl option %s. Try: the same command without %s, if the request then has the same meaning", name, name)
	}
	if attached == "" {
		if len(words) < 2 {
			return 0, fmt.Errorf("the curl option %s has no value. Try: put the value into quotation marks", name)
		}
		attached, taken = words[1], 2
	}
	return taken, set(c, attached)
}

func (c *curl) method(name string) error {
	if c.Method != "" {
		return errors.New("the curl command has two methods. Try: use --request only one time")
	}
	c.Method = name
	return nil
}

func (c *curl) place(text string) error {
	u, err := parseURL(text)
	if err == nil {
		c.urls = append(c.urls, u)
	}
	return err
}

func (c *curl) header(line string) error {
	if strings.HasPrefix(line, "@") {
		return errors.New("--header names a file. Try: --header 'NAME: VALUE'")
	}
	// curl sends a header without a value if a semicolon follows its name.
	if name, isEmpty := strings.CutSuffix(strings.TrimSpace(line), ";"); isEmpty && !strings.Contains(line, ":") {
		line = name + ":"
	}
	return addHeader(c.Header, line)
}

func (c *curl) raw(value string) error {
	c.data, c.hasData, c.isForm = append(c.data, value), true, true
	return nil
}

// add adds data, or the content of the file after an @. Without its line ends it is the same as curl's --data sends.
func (c *curl) add(value string, isText bool) error {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return c.raw(value)
	}
	if name == "-" {
		return errors.New("the curl command reads its data from the standard input. Try: write the data itself, or @FILE")
	}
	b, err := c.readFile(name)
	if err != nil {
		return fmt.Errorf("the file that the option --data names cannot be read: %w. Try: name a file that you may read", err)
	}
	value = string(b)
	if isText {
		value = strings.NewReplacer("\r", "", "\n", "").Replace(value)
	}
	return c.raw(value)
}

func (c *curl) json(value string) error {
	isForm := c.isForm
	err := c.add(value, false)
	// add marks its data as a form, which JSON is not.
	c.isForm, c.isJSON = isForm, true
	return err
}

func (c *curl) encoded(value string) error {
	name, text, ok := strings.Cut(value, "=")
	if !ok {
		if strings.Contains(value, "@") {
			return errors.New("--data-urlencode names a file. Try: --data-urlencode 'NAME=VALUE'")
		}
		return c.raw(url.QueryEscape(value))
	}
	if name != "" {
		name += "="
	}
	return c.raw(name + url.QueryEscape(text))
}

// end returns the request that the options describe.
func (c *curl) end() (*Request, error) {
	if len(c.urls) != 1 {
		return nil, fmt.Errorf("the curl command has %d URLs. Try: use one URL, and put each value with a space into quotation marks", len(c.urls))
	}
	if c.isJSON && c.isForm {
		return nil, errors.New("the curl command has both --json and --data. Try: use only one of them")
	}
	u := c.urls[0]
	c.URL = u
	if u.User != nil { // it is sent as a header, as curl does
		password, _ := u.User.Password()
		if c.Header.Get("Authorization") == "" {
			c.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		}
		u.User = nil
	}
	separator, kind := "&", "application/x-www-form-urlencoded"
	if c.isJSON {
		separator, kind = "", "application/json"
		if c.Header.Get("Accept") == "" {
			c.Header.Set("Accept", kind)
		}
	}
	if c.hasData {
		c.Body = []byte(strings.Join(c.data, separator))
		if len(c.Header.Values("Content-Type")) == 0 {
			c.Header.Set("Content-Type", kind)
		}
		if c.Method == "" {
			c.Method = http.MethodPost
		}
	}
	if c.Method == "" {
		c.Method = http.MethodGet
	}
	return &c.Request, c.complete()
}
