package oncehttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// comparing sets some headers before the handler has its turn.
func comparing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// The answer of a protected handler is that of the same handler on its own, apart from
// what says so, and apart from pieces and trailers.
func TestAnswerIsThatOfTheHandler(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"nothing":       func(http.ResponseWriter, *http.Request) {},
		"only a status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"only a body":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"empty write": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(nil)
			w.WriteHeader(http.StatusInternalServerError)
		},
		"string": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") },
		"binary": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0x1f, 0x8b, 8, 0}) },
		"JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		},
		"no type": func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = nil; fmt.Fprint(w, "{}") },
		"encoded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "{}")
		},
		"204": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			w.WriteHeader(http.StatusNoContent)
			fmt.Fprint(w, "no")
		},
		"304": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
			fmt.Fprint(w, "no")
		},
		"twice": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusAccepted)
		},
		"early hints": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) },
		"after the status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("Location", "/")
			fmt.Fprint(w, "x")
		},
		"after the body": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "x")
			w.Header().Set("Location", "/")
		},
		"held header": func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			w.WriteHeader(http.StatusCreated)
			h.Set("X-Late", "1")
			h.Del("X-Outer")
		},
		"deletes of outer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Del("X-Outer")
			w.Header().Del("Cache-Control")
		},
		"replaces outer": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "private") },
		"adds to outer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Vary", "Accept")
			w.Header().Add("Cache-Control", "private")
		},
		"duplicates": func(w http.ResponseWriter, _ *http.Request) { w.Header()["Link"] = []string{"</b>", "</a>", "</b>"} },
		"cookies":    func(w http.ResponseWriter, _ *http.Request) { http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"}) },
		"raw names": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["ETag"] = []string{`"1"`}
			w.Header()["x-b"] = []string{"1"}
			w.Header()["location"] = []string{"/"}
		},
		"raw content type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["content-type"] = []string{"a/b"}
			fmt.Fprint(w, "text")
		},
		"bad names": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["a b"] = []string{"1"}
			w.Header()["b\n"] = []string{"1"}
			w.Header()[""] = []string{"1"}
		},
		"newlines": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/a\r\nX-Injected: 1")
			w.Header().Set("X-B", "a\nb")
		},
		"white space": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "  /a  ")
			w.Header().Set("Link", "")
		},
		"own length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			fmt.Fprint(w, "four")
		},
		"not found": http.NotFound,
		"redirect":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusSeeOther) },
		"connection: close": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, "bye")
		},
		"date": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", "Tue, 15 Nov 1994 08:12:31 GMT") },
		"many headers": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 40 {
				w.Header().Add(fmt.Sprintf("X-%d", i%30), "v")
			}
		},
		"problem": func(w http.ResponseWriter, _ *http.Request) {
			oncehttp.WriteProblem(w, oncehttp.Problem{Status: 422, Code: "VALIDATION.amount"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{around: comparing}, func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) { h(w, r) })
			bare := start(t, setup{around: func(http.Handler) http.Handler { return comparing(h) }}, nil)
			text := "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n"
			status, header, body := split(t, s.raw(text))
			wantStatus, wantHeader, wantBody := split(t, bare.raw(text))
			if status != wantStatus || string(body) != string(wantBody) {
				t.Errorf("%s %q, not %s %q", status, body, wantStatus, wantBody)
			}
			lines := func(header []string) string { // net/http adds its own at the end, wherever ours are
				header = slices.DeleteFunc(header, func(line string) bool {
					return strings.HasPrefix(line, "Idempotency-") || strings.HasPrefix(line, "Date: ") && name != "date"
				})
				slices.Sort(header)
				return strings.Join(header, "\n")
			}
			if got, want := lines(header), lines(wantHeader); got != want {
				t.Errorf("header\n%s\nnot\n%s", got, want)
			}
		})
	}
}

func TestInformationalAnswersAndTrailersAreDropped(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusContinue)
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "x")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-Other", "1")
	})
	raw := string(s.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n"))
	if !strings.HasPrefix(raw, "HTTP/1.1 201 ") || strings.Contains(raw, "103") || strings.Contains(raw, "X-Sum") || strings.Contains(raw, "X-Other") || !strings.Contains(raw, "Content-Length: 1\r\n") {
		t.Errorf("%s", raw)
	}
}

func TestInvalidStatusPanics(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
			create(w, r, tx)
		}()
		w.WriteHeader(42)
	})
	if got := s.post("k", ""); got.status != 201 {
		t.Errorf("%+v", got)
	}
}

func TestWritesAfterReturnAreRefused(t *testing.T) {
	var kept http.ResponseWriter
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		create(w, r, tx)
		kept = w
	})
	s.post("k", "")
	if _, err := kept.Write([]byte("late")); err == nil {
		t.Error("written")
	}
	kept.WriteHeader(http.StatusInternalServerError)
	if got := s.post("k", ""); got.body != "refund 1" || got.status != 201 {
		t.Errorf("%+v", got)
	}
}

func TestHeadOfAnUnkeyedHandler(t *testing.T) {
	raw := func(h handler) (string, int64) {
		srv := start(t, setup{around: func(http.Handler) http.Handler { return headHandler(h) }}, h)
		resp, err := http.Head(srv.url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b), resp.ContentLength
	}
	if body, n := raw(func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) { fmt.Fprint(w, "four") }); body != "" || n != 4 {
		t.Errorf("written: %q, %d", body, n)
	}
	if body, n := raw(func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) { w.Header().Set("Content-Length", "9") }); body != "" || n != 9 {
		t.Errorf("declared: %q, %d", body, n)
	}
}

func TestWriteIsRefusedWithoutABody(t *testing.T) {
	for _, status := range []int{204, 304} {
		s := start(t, setup{}, func(w http.ResponseWriter, _ *http.Request, _ *memstore.Tx) {
			w.WriteHeader(status)
			if n, err := w.Write(nil); n != 0 || err != nil {
				t.Errorf("%d: nothing: %d, %v", status, n, err)
			}
			if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("%d: %d, %v", status, n, err)
			}
		})
		if got := s.post("k", ""); got.status != status {
			t.Errorf("%+v", got)
		}
	}
}
