package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// scraped is what a Prometheus server gets from address: the numbers, by series.
func scraped(t *testing.T, address string) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", address, resp.StatusCode, err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(bytes.TrimSpace(text))) {
		line = strings.TrimSpace(line)
		space := strings.LastIndexByte(line, ' ')
		if n, err := strconv.ParseFloat(line[space+1:], 64); err == nil && line[0] != '#' {
			found[line[:space]] = n
		}
	}
	return found
}

// TestServeMetrics: the instruments are served at a loopback address of their own, which is printed, and not
// where the service is.
func TestServeMetrics(t *testing.T) {
	t.Parallel()
	cmd, said := serving(t)
	if !strings.HasPrefix(said["metrics"], "http://127.0.0.1:") {
		t.Fatalf("%v", said)
	}
	for range 3 {
		ask(t, http.MethodPost, said["serving"]+"/charges", `{"amount":5000,"currency":"EUR","customer":"ada"}`, 201)
	}
	ask(t, http.MethodPost, said["serving"]+"/charges", `{"amount":5001,"currency":"EUR","customer":"ada"}`, 422)
	found := scraped(t, said["metrics"])
	for series, want := range map[string]float64{
		`once_operations_total{decision="new_execution",effect="applied",operation="POST /charges"}`: 1,
		`once_operations_total{decision="db_hit",effect="applied",operation="POST /charges"}`:        2,
		`once_mismatches_total{operation="POST /charges"}`:                                           1,
	} {
		if found[series] != want {
			t.Errorf("%s is %v, want %v", series, found[series], want)
		}
	}
	ask(t, http.MethodGet, said["serving"]+"/metrics", "", http.StatusNotFound)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"--metrics", ""}, {"--unsafe"}} {
		cmd, said := serving(t, args...)
		if _, is := said["metrics"]; is {
			t.Errorf("%v: %v", args, said)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	o := run(t, "demo", "serve", "--listen", "127.0.0.1:0", "--metrics", "256.0.0.1:1").want(t, 1)
	if !strings.Contains(o.stderr, "\nTry: --metrics 127.0.0.1:0") {
		t.Errorf("%s", o.stderr)
	}
}

// TestRelayMetrics: once relay counts its deliveries, and tells what waits and what was given up.
func TestRelayMetrics(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	db := open(t, url)
	for i := range 3 {
		db.add(t, outbox.Config{}, message.Message{Topic: "refunds", Key: "acct_1", Type: "n", Payload: fmt.Append(nil, i)})
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "1" {
			w.WriteHeader(http.StatusBadRequest) // given up
		}
	}))
	defer receiver.Close()
	address := startRelay(t, url, receiver.URL)
	want := map[string]float64{
		`once_outbox_deliveries_total{result="delivered",topic="refunds"}`: 1, `once_outbox_deliveries_total{result="stopped",topic="refunds"}`: 1,
		"once_outbox_messages": 2, "once_outbox_blocked_keys": 1, "once_dead_letters": 1,
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		found := scraped(t, address)
		maps.DeleteFunc(found, func(series string, _ float64) bool { _, is := want[series]; return !is })
		if maps.Equal(found, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, want %v", found, want)
		}
	}
}
