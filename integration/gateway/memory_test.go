package gateway

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// heap is the largest heap that was seen.
type heap struct {
	mu       sync.Mutex
	largest  uint64
	measured int
}

func (h *heap) measure() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.largest, h.measured = max(h.largest, m.HeapAlloc), h.measured+1
}

// metered measures the heap each time that so many bytes have passed.
type metered struct {
	io.Reader

	heap  *heap
	every int64
	left  int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.left -= int64(n); m.left <= 0 {
		m.left = m.every
		m.heap.measure()
	}
	return n, err
}

// letters never ends.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestMemoryIsFlat: a request of 100 MiB and an answer of 64 MiB are no memory of the gateway, while they come and while they go: the heap
// grows by 2 MiB at most.
func TestMemoryIsFlat(t *testing.T) { // by itself: it counts what the process has
	testenv.Prove(t)
	const upload, download, every, bound = 100 << 20, 64 << 20, 8 << 20, 2 << 20
	h := &heap{}
	var got, uploaded int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.Copy(io.Discard, &metered{r.Body, h, every, every})
		if got == upload {
			uploaded++
			return
		}
		_, _ = io.Copy(w, &metered{io.LimitReader(letters{}, download), h, every, every})
	}))
	t.Cleanup(service.Close)
	u, err := url.Parse(service.URL)
	must(t, err)
	g, err := gateway.New(gateway.Config{
		Name: "service", Upstream: u, Principal: oncehttp.SharedPrincipal(), Engine: once.Config{Observer: once.Discard},
		Store:  lease.New(memstore.New(), lease.Config{Log: slog.New(slog.DiscardHandler)}),
		Routes: []gateway.Route{{Pattern: "POST /pay", MaxRequest: 2 * upload, Timeout: time.Hour}},
	})
	must(t, err)
	t.Cleanup(g.Close)
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	post := func(key string, size int64) int64 {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/pay", &metered{io.LimitReader(letters{}, size), h, every, every})
		must(t, err)
		r.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, &metered{resp.Body, h, every, every})
		must(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", key, resp.Status)
		}
		return n
	}
	for i := range 3 { // connections, pools and types of JSON are made
		post(fmt.Sprint("small ", i), 512<<10)
	}
	h.measure()
	before, measured := h.largest, h.measured
	post("upload", upload)
	if n := post("download", 1); uploaded != 1 || n != download {
		t.Errorf("vacuous: %d uploads, an answer of %d bytes", uploaded, n)
	}
	testenv.Reportf(t, "the heap has grown from %d to %d KiB, measured %d times", before>>10, h.largest>>10, h.measured-measured)
	if h.largest > before+bound {
		t.Errorf("the heap has grown from %d to %d KiB", before>>10, h.largest>>10)
	}
	if h.measured-measured < (2*upload+2*download)/every-8 {
		t.Errorf("vacuous: measured %d times", h.measured-measured)
	}
}
