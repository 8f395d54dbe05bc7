package killstorm

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// job is a request for a client process to send. The process gets it as one line of JSON.
type job struct {
	ID     int    `json:"id"`
	Key    string `json:"key"`
	Path   string `json:"path"`
	Body   string `json:"body"`
	Order  int    `json:"order"`
	Sender int    `json:"sender"`
	Fated  bool   `json:"fated"`  // the network may cause faults
	Doomed bool   `json:"doomed"` // its client waits to be killed when the request is sent
}

// event is what a client process reports, as one line of JSON.
type event struct {
	Kind string `json:"kind"`
	Job  int    `json:"job,omitempty"` // 0 for an intent of an earlier process, from the journal

	Key  string `json:"key,omitempty"`  // of answered and tried
	Sent string `json:"sent,omitempty"` // the body of the request; of answered

	Attempt int           `json:"attempt,omitempty"`
	Delay   time.Duration `json:"delay,omitempty"` // the pause before this attempt
	Word    string        `json:"word,omitempty"`

	Status int         `json:"status,omitempty"`
	Code   string      `json:"code,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	Error  string      `json:"error,omitempty"`
}

const (
	left     = "left"     // a whole request was sent
	tried    = "tried"    // an attempt has ended
	answered = "answered" // the last answer has arrived, but is not in the journal yet
	done     = "done"     // the answer is in the journal
	ready    = "ready"    // the open intents of the journal have been resumed
)

// lines writes values, each as one line of JSON. Several goroutines may use it.
type lines struct {
	mu sync.Mutex
	to *json.Encoder
}

func newLines(w io.Writer) *lines { return &lines{to: json.NewEncoder(w)} }

func (l *lines) write(v any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Encode(v)
}
