package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/hostname"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// Intents are the open requests in the journal of a client.
type Intents struct{ journal ClientJournal }

// ClientJournal is a journal of which a person may close intents: a *journal.File or *journal.Table.
type ClientJournal interface {
	journal.Journal
	Resolve(ctx context.Context, id string) error
}

// NewIntents returns the intents of j.
func NewIntents(j ClientJournal) *Intents { return &Intents{j} }

// Intent is a request whose outcome is not known. Its body is not shown.
type Intent struct {
	Key       string     `json:"key"`
	Method    string     `json:"method"`
	URL       string     `json:"url"`
	BodyBytes int        `json:"body_bytes"`
	State     string     `json:"state"` // open, expired or held
	Reason    string     `json:"reason,omitempty"`
	Since     time.Time  `json:"since"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`

	ID string `json:"-"` // in its journal
}

// IntentsOf returns the intents of a journal that [journal.Read] has read.
func IntentsOf(list []journal.Intent) []Intent { return convert(list, intentOf) }

func intentOf(in journal.Intent) Intent {
	i := Intent{ID: in.ID, Key: in.Key, Method: in.Method, URL: in.URL, BodyBytes: len(in.Body), State: "open", Reason: in.Held, Since: in.Since}
	if !in.Expires.IsZero() {
		i.ExpiresAt = &in.Expires
	}
	switch {
	case in.Held != "":
		i.State = "held"
	case !in.Expires.IsZero() && !time.Now().Before(in.Expires):
		i.State = StateExpired
	}
	return i
}

// List returns all intents, the oldest first.
func (s *Intents) List(ctx context.Context) ([]Intent, error) {
	list, err := s.journal.List(ctx)
	return IntentsOf(list), err //nolint:wrapcheck // it is of package journal
}

// Find returns the intents with a key, and with a URL unless that is "".
func (s *Intents) Find(ctx context.Context, key, url string) ([]Intent, error) {
	list, err := s.List(ctx)
	return slices.DeleteFunc(list, func(in Intent) bool {
		return in.Key != key && strings.Trim(in.Key, `"`) != key || url != "" && in.URL != url
	}), err
}

// Resolve closes an intent after a person has found out its outcome.
func (s *Intents) Resolve(ctx context.Context, id string) error {
	return s.journal.Resolve(ctx, id) //nolint:wrapcheck // likewise
}

// Hosts returns the hosts of the intents that can be sent.
func (s *Intents) Hosts(ctx context.Context) ([]string, error) {
	list, err := s.journal.List(ctx)
	hosts := map[string]bool{}
	for _, in := range list {
		if in.Held == "" {
			hosts[hostOf(in)] = true
		}
	}
	return slices.Sorted(maps.Keys(hosts)), err //nolint:wrapcheck // likewise
}

// hostOf returns the host of an intent, with a port if it is not the usual one.
func hostOf(in journal.Intent) string {
	u, err := url.Parse(in.URL)
	if err != nil {
		return ""
	}
	return hostname.Canonical(u.Host)
}

// ResumeRequest says which intents are sent again, and how. The zero value means all.
type ResumeRequest struct {
	Host   string        // sends only intents of this host, written as in a URL
	Header http.Header   // lines for all requests, such as secrets, which a journal does not have. They are sent to one host only
	Retain time.Duration // how long the server remembers a key; 0 means as in the journal, or 24 h
}

// Resumed is the result of sending intents again.
type Resumed struct {
	Closed  int            `json:"closed"`
	Open    int            `json:"open"`
	Left    int            `json:"left"` // open intents that were not sent
	Held    int            `json:"held"`
	Answers []ResumeAnswer `json:"answers"`
}

// ResumeAnswer is the answer that has closed an intent.
type ResumeAnswer struct {
	Key    string `json:"key"`
	URL    string `json:"url"`
	Status int    `json:"status"`
}

// HostsError says that headers were given although the intents are for several hosts.
type HostsError struct{ Hosts []string }

func (e *HostsError) Error() string {
	return fmt.Sprintf("operate: the journal has intents for %d hosts, and ResumeRequest.Header would tell them all a secret. Try: ResumeRequest.Host", len(e.Hosts))
}

// Resume sends intents again with their keys, and closes each intent whose outcome is known then.
func (s *Intents) Resume(ctx context.Context, r ResumeRequest) (Resumed, error) {
	done := Resumed{Answers: []ResumeAnswer{}}
	j, err := s.restricted(ctx, r)
	if err != nil {
		return done, err
	}
	var mu sync.Mutex
	transport := &retryhttp.Transport{Journal: j, Dialect: retryhttp.Dialect{Retain: r.Retain}}
	n, err := journal.Resume(ctx, j, &http.Client{Transport: transport, CheckRedirect: r.redirected}, journal.Options{
		Prepare: r.prepare,
		Answer: func(in journal.Intent, resp *http.Response) error {
			mu.Lock()
			defer mu.Unlock()
			done.Answers = append(done.Answers, ResumeAnswer{in.Key, in.URL, resp.StatusCode})
			return nil
		},
	})
	done.Closed, done.Open, done.Left, done.Held = n.Closed, n.Open, n.Left, n.Held
	return done, err //nolint:wrapcheck // likewise
}

// restricted returns the part of a journal that is resumed. Headers are secrets for one host, and must not reach another one, not even with an intent
// that is added meanwhile.
func (s *Intents) restricted(ctx context.Context, r ResumeRequest) (journal.Journal, error) {
	host := hostname.Canonical(r.Host)
	if host == "" {
		if len(r.Header) == 0 {
			return s.journal, nil
		}
		hosts, err := s.Hosts(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(hosts) > 1:
			return nil, &HostsError{hosts}
		case len(hosts) == 1:
			// Also when there is one host now: an intent for another one may come in just after.
			host = hosts[0]
		}
	}
	return &oneHost{s.journal, host}, nil
}

// oneHost is the part of a journal with the intents for one host.
type oneHost struct {
	journal.Journal

	host string
}

// List implements [journal.Journal].
func (j *oneHost) List(ctx context.Context) ([]journal.Intent, error) {
	list, err := j.Journal.List(ctx)
	return slices.DeleteFunc(list, func(in journal.Intent) bool { return hostOf(in) != j.host }), err
}

func (r ResumeRequest) prepare(req *http.Request, in journal.Intent) error {
	if r.Retain == 0 && in.Expires.IsZero() && time.Since(in.Since) > 23*time.Hour { // a guessed expiry must not hold the intent for good
		return errors.New("it is old, and the journal does not say for how long the server remembers its key. Try: --retention 72h, if that is how long")
	}
	for name, lines := range r.Header {
		req.Header[name] = lines
		if name == "Host" {
			req.Host = lines[0]
		}
	}
	return nil
}

// redirected removes the headers from a request that is redirected to another host.
func (r ResumeRequest) redirected(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		// As net/http does by itself: a function in CheckRedirect replaces its limit.
		return errors.New("stopped after 10 redirects")
	}
	if !strings.EqualFold(req.URL.Host, via[0].URL.Host) {
		// net/http itself removes only Authorization and Cookie.
		for name := range r.Header {
			req.Header.Del(name)
		}
	}
	return nil
}
