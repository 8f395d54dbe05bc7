package oncehttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/store/memstore"
)

// Nothing is sent before the commit, and Flush does not change that.
func TestFlushWaitsForTheCommit(t *testing.T) {
	var sent int
	counting := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(counter{w, &sent}, r)
		})
	}
	s := start(t, setup{around: counting}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		fmt.Fprint(w, "one ")
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush: %v", err)
		}
		fmt.Fprint(w, "two")
		if sent != 0 {
			t.Errorf("%d bytes were sent before the commit", sent)
		}
	})
	if got := s.post("k", ""); got.status != 200 || got.body != "one two" || got.header.Get("Content-Length") != "7" {
		t.Errorf("%+v", got)
	}
}

type counter struct {
	http.ResponseWriter
	n *int
}

func (c counter) Write(p []byte) (int, error) { *c.n += len(p); return c.ResponseWriter.Write(p) }
func (c counter) WriteHeader(status int)      { *c.n++; c.ResponseWriter.WriteHeader(status) }
func (c counter) Flush()                      { *c.n++ }

func TestFlushSendsTheStatus(t *testing.T) { // as net/http does
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		w.(http.Flusher).Flush()
		w.WriteHeader(http.StatusInternalServerError)
	})
	if got := s.post("k", ""); got.status != 200 {
		t.Errorf("%+v", got)
	}
}

func TestStreamingControlsAreRefused(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		c := http.NewResponseController(w)
		_, _, hijack := c.Hijack()
		var direct error
		if h, ok := w.(http.Hijacker); ok {
			_, _, direct = h.Hijack()
		}
		for name, err := range map[string]error{
			"Hijack": hijack, "Hijacker": direct, "SetReadDeadline": c.SetReadDeadline(time.Now()),
			"SetWriteDeadline": c.SetWriteDeadline(time.Now()), "EnableFullDuplex": c.EnableFullDuplex(),
		} {
			if !errors.Is(err, http.ErrNotSupported) || !strings.Contains(err.Error(), "sent only after the commit") {
				t.Errorf("%s: %v", name, err)
			}
		}
		create(w, r, tx)
	})
	if got := s.post("k", ""); got.status != 201 {
		t.Errorf("%+v", got)
	}
}

func TestStreamsAreRefused(t *testing.T) {
	for name, h := range map[string]handler{
		"server-sent events": func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			increment(tx, "n")
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for range 3 {
				if _, err := fmt.Fprint(w, "data: x\n\n"); err == nil {
					t.Error("an event was taken")
				}
				if err := http.NewResponseController(w).Flush(); err == nil {
					t.Error("an event was flushed")
				}
			}
		},
		"switching protocols": func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			increment(tx, "n")
			w.WriteHeader(http.StatusSwitchingProtocols)
		},
	} {
		s := start(t, setup{}, h)
		got := s.post("k", "")
		if p := got.problem(t); got.status != 500 || p.Code != problemStreaming || p.Retryable || p.SafeNewKey {
			t.Errorf("%s: %+v", name, p)
		}
		s.expect(1, "n", 0)
	}
}
