// Package oracle counts effects: it gets one number from a URL or a command.
package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/process"
)

// Count returns the number of effects.
type Count func(context.Context) (int64, error)

// mostOfNumber is how many bytes of an answer are read at most.
const mostOfNumber = 1 << 10

// New returns the function that reads the number from the source that --effects names, or nil if from is empty.
func New(from string, owned []string) (Count, error) {
	if from == "" {
		return nil, nil //nolint:nilnil // see above
	}
	if command, ok := strings.CutPrefix(from, "!"); ok {
		return func(ctx context.Context) (int64, error) {
			out, err := process.Output(ctx, "sh", "-c", command)
			if err != nil { // the error of the command may contain a password, so it is not shown
				return 0, errors.New("the shell command of --effects has failed. Try: run the same command in a shell")
			}
			return number(out)
		}, nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("--effects is neither a URL nor a command. Try: --effects http://localhost:8080/count, or --effects '!psql -Atc \"select count(*) from charge\"'")
	}
	if err := probe.Allow(u.Hostname(), owned); err != nil {
		return nil, err
	}
	client := &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true}, // without a proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) (int64, error) { return get(ctx, client, u) }, nil
}

func get(ctx context.Context, client *http.Client, u *url.URL) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("%s cannot be reached. Try: open the URL of --effects in a browser", u.Host)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostOfNumber))
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers with the status %d. Try: open the URL of --effects in a browser", u.Host, resp.StatusCode)
	}
	return number(text)
}

func number(text []byte) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, errors.New("the URL or the command of --effects does not return one number. Try: return a count, such as the number of rows of a table")
	}
	return n, nil
}
