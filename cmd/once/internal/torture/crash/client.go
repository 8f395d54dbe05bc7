package crash

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
)

// answer is what came back. A status of 0 means that none came.
type answer struct {
	status int
	body   []byte
}

func (a answer) String() string {
	if a.status == 0 {
		return "no answer"
	}
	return strconv.Itoa(a.status)
}

// isFinal reports whether a client would not retry after this answer.
func (a answer) isFinal() bool {
	switch a.status {
	case 0, http.StatusConflict, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return a.status < 500
}

// equal reports whether two answers are equal. Their bytes are compared only if the service stores answers.
func (a answer) equal(b answer, isStored bool) bool {
	return a.status == b.status && (!isStored || bytes.Equal(a.body, b.body))
}

const (
	mostBytes = 1 << 20 // of an answer that are compared
	silence   = 30 * time.Second
)

// newClient returns a client that follows no redirects, uses no proxy, and uses each connection once: on a kept connection net/http may repeat a
// request by itself.
func newClient(host string) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: probe.Dialer(host).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// newKey is a UUID, which most APIs take.
func newKey() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// send sends the request with a key. An error is one of this program; no answer is an answer.
func (r *run) send(ctx context.Context, key string) (answer, error) {
	bounded, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	q, err := r.Request.New(bounded, r.KeyHeader, r.Request.Body)
	if err != nil {
		return answer{}, err
	}
	if r.Quoted {
		key = `"` + key + `"`
	}
	q.Header.Set(r.KeyHeader, key)
	resp, err := r.client.Do(q)
	if err != nil {
		return answer{}, ctx.Err()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes))
	if err != nil { // the answer was cut off
		return answer{}, ctx.Err()
	}
	return answer{resp.StatusCode, body}, nil
}

const tries = 3 // attempts before a key counts as stuck, even on a slow machine

// retry sends the request again until an answer is final.
func (r *run) retry(ctx context.Context, key string) (a answer, isAnswered bool, err error) {
	end := time.Now().Add(r.Patience)
	for n := 1; ; n++ {
		if a, err = r.send(ctx, key); err != nil || a.isFinal() {
			return a, true, err
		}
		if n >= tries && time.Now().After(end) {
			return a, false, nil
		}
		if err := r.pause(ctx, 50*time.Millisecond); err != nil {
			return a, false, err
		}
	}
}
