package once

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once/internal/base/printable"
)

// Namespace is the first part of keys of the form "prefix:environment:version:id", such as
// "billing:live:v1:0190...". Different namespaces separate the keys of two services, the keys of the test and
// live environments, or the keys of two versions of a key's meaning.
type Namespace struct {
	Prefix      string // the service
	Environment string // live, test, ...
	Version     string // the version of the meaning of an id
}

// String returns "prefix:environment:version".
func (n Namespace) prefix() string {
	return n.Prefix + ":" + n.Environment + ":" + n.Version
}

// Key returns the key of id in the namespace. The id may contain colons.
func (n Namespace) Key(id string) string { return n.prefix() + ":" + id }

func (n Namespace) owns(key string) bool {
	id, ok := strings.CutPrefix(key, n.prefix()+":")
	return ok && id != ""
}

func (n Namespace) check() error {
	for _, p := range []string{n.Prefix, n.Environment, n.Version} {
		switch {
		case p == "":
			return errors.New("the Prefix, the Environment and the Version of a namespace must not be empty")
		case strings.Contains(p, ":") || !printable.Is(p):
			return fmt.Errorf("%q cannot be part of a namespace, because it contains a colon or a control character, or is not UTF-8", p)
		}
	}
	return nil
}
