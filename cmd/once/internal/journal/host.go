package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/hostname"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/retry/journal"
)

// oneHost is those intents of a journal that are for one host.
type oneHost struct {
	journal.Journal

	host string
}

// List implements [journal.Journal].
func (j *oneHost) List(ctx context.Context) ([]journal.Intent, error) {
	list, err := j.Journal.List(ctx)
	return slices.DeleteFunc(list, func(in journal.Intent) bool { return hostOf(in) != j.host }), err
}

// hostOf returns the host of an intent, with a port that is not the usual one.
func hostOf(in journal.Intent) string {
	u, err := url.Parse(in.URL)
	if err != nil {
		return ""
	}
	return hostname.Canonical(u.Host)
}

// restrict returns what of a journal is resumed. Headers are secrets, and those of one host
// are none of the business of another one: also of one whose intent comes in just now.
func (c *resume) restrict(ctx context.Context, m *cli.Env, j journal.Journal) (journal.Journal, error) {
	if c.host == "" && len(c.header) == 0 {
		return j, nil
	}
	list, err := j.List(ctx)
	if err != nil {
		return nil, err
	}
	hosts := map[string]bool{}
	for _, in := range list {
		if in.Held == "" {
			hosts[hostOf(in)] = true
		}
	}
	names := slices.Sorted(maps.Keys(hosts))
	host := hostname.Canonical(c.host)
	switch {
	case host == "" && len(names) > 1:
		return nil, cli.Usage(fmt.Sprintf("the journal has intents for %d hosts, and --header would tell them all a secret", len(names)),
			fmt.Sprintf("--host %s, or one of: %s", words.Quoted(names[0]), words.Shown(strings.Join(names[1:], ", "))))
	case host == "" && len(names) == 1:
		host = names[0]
	case host == "": // nor will there be anything to send
	case !hosts[host] && len(names) > 0:
		fmt.Fprintf(m.Stderr, "nothing is open for %s, but for: %s\n", words.Shown(host), words.Shown(strings.Join(names, ", ")))
	}
	return &oneHost{j, host}, nil
}

// redirected takes the headers off a request that is redirected to another host. net/http
// does so with Authorization and Cookie alone.
func (c *resume) redirected(r *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	if !strings.EqualFold(r.URL.Host, via[0].URL.Host) {
		for name := range c.header {
			r.Header.Del(name)
		}
	}
	return nil
}
