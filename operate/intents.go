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

// Intents gives access to the open requests (requests without a known outcome) in the journal of an HTTP client (package retry/journal).
type Intents struct{ journal ClientJournal }

// ClientJournal is a journal in which an operator can close intents (stored requests): a *journal.File or *journal.Table.
type ClientJournal interface {
	journal.Journal
	Resolve(ctx context.Context, id string) error
}

// NewIntents returns the Intents (the open requests) of the journal j.
func NewIntents(j ClientJournal) *Intents { return &Intents{j} }

// Intent is a stored request whose outcome is not known. An Intent does not contain the body of the request.
type Intent struct {
	Key       string     `json:"key"`
	Method    string     `json:"method"`
	URL       string     `json:"url"`
	BodyBytes int        `json:"body_bytes"`
	State     string     `json:"state"` // one of open, expired and held
	Reason    string     `json:"reason,omitempty"`
	Since     time.Time  `json:"since"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`

	ID string `json:"-"` // the ID of the intent in its journal
}

// IntentsOf converts intents (stored requests) that [journal.Read] has returned into values of the type Intent.
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

// List returns all open intents (stored requests without a known outcome), the oldest first.
func (s *Intents) List(ctx context.Context) ([]Intent, error) {
	list, err := s.journal.List(ctx)
	return IntentsOf(list), err //nolint:wrapcheck // it is of package journal
}

// Find returns the intents (stored requests) with this key. If url is not "", Find returns only intents with this URL.
func (s *Intents) Find(ctx context.Context, key, url string) ([]Intent, error) {
	list, err := s.List(ctx)
	return slices.DeleteFunc(list, func(in Intent) bool {
		// The journal has the key as it was sent, perhaps in quotation marks.
		return in.Key != key && strings.Trim(in.Key, `"`) != key || url != "" && in.URL != url
	}), err
}

// Resolve closes the intent (the stored request) with this ID, after an operator has found out the outcome of the request.
func (s *Intents) Resolve(ctx context.Context, id string) error {
	return s.journal.Resolve(ctx, id) //nolint:wrapcheck // likewise
}

// Hosts returns the hosts of the intents (stored requests) that can be sent again. The library does not send an intent again if the intent has
// expired or is held (waits for an operator).
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

// hostOf returns the host of an intent, with its port unless the port is the default port.
func hostOf(in journal.Intent) string {
	u, err := url.Parse(in.URL)
	if err != nil {
		return ""
	}
	return hostname.Canonical(u.Host)
}

// ResumeRequest says which intents [Intents.Resume] sends again, and how. With the zero value of ResumeRequest, Intents.Resume sends all intents
// again.
type ResumeRequest struct {
	Host   string        // only intents of this host are sent, and the host is written as in a URL; "" means all hosts
	Header http.Header   // header lines to add to all requests, such as secrets, which a journal does not have; the header lines are sent to one host only
	Retain time.Duration // how long the server keeps a key; 0 means the time in the journal, or 24 hours
}

// Resumed is the result of [Intents.Resume]. The fields Closed, Open, Left and Held count intents (stored requests). See [journal.Resumed].
type Resumed struct {
	Closed  int            `json:"closed"`
	Open    int            `json:"open"`
	Left    int            `json:"left"` // the number of open intents that were not sent, because their host fails
	Held    int            `json:"held"`
	Answers []ResumeAnswer `json:"answers"`
}

// ResumeAnswer is the last answer to an intent (a stored request) that was sent again. The intent may still be open, for example if the answer has
// the status 500, or if it is a login page after a redirect. [Intents.List] returns the intents that are still open.
type ResumeAnswer struct {
	Key    string `json:"key"`
	URL    string `json:"url"`
	Status int    `json:"status"`
}

// HostsError is the error of Intents.Resume if ResumeRequest.Header is set, ResumeRequest.Host is empty, and the intents (stored requests) are for
// several hosts.
type HostsError struct{ Hosts []string }

func (e *HostsError) Error() string {
	return fmt.Sprintf("operate: the journal has intents for %d hosts, and each host would receive the secrets of ResumeRequest.Header. Try: set ResumeRequest.Host", len(e.Hosts))
}

// Resume sends intents (stored requests) again, each with its original key, and closes each intent whose outcome is then known. See [journal.Resume].
func (s *Intents) Resume(ctx context.Context, r ResumeRequest) (Resumed, error) {
	done := Resumed{Answers: []ResumeAnswer{}}
	j, err := s.restricted(ctx, r)
	if err != nil {
		return done, err
	}
	// Resume calls Answer concurrently.
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

// restricted returns the part of a journal that Resume sends again. The headers contain secrets for one host. No other host may receive them, not
// even with an intent that is added during Resume.
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
			// The limit also applies if only one host exists now, because an intent for another host may be added soon.
			host = hosts[0]
		}
	}
	return &oneHost{s.journal, host}, nil
}

// oneHost is a journal with only the intents for one host.
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
	if r.Retain == 0 && in.Expires.IsZero() && time.Since(in.Since) > 23*time.Hour { // an expiry that is only guessed must not hold the intent for ever
		return errors.New("the intent is old, and the journal does not say how long the server remembers its key. Try: --retention 72h if the server remembers keys for 72 hours")
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
		// A CheckRedirect function replaces the limit of net/http, so it needs the same limit.
		return errors.New("stopped after 10 redirects")
	}
	if !strings.EqualFold(req.URL.Host, via[0].URL.Host) {
		// On its own, net/http removes only Authorization and Cookie.
		for name := range r.Header {
			req.Header.Del(name)
		}
	}
	return nil
}
