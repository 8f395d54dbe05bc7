package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

// TestRelayArchive: once relay --keep --archive delivers messages, keeps them for as long as it is told, and deletes them behind the archive, which shows each
// of them, its payload only if it is asked for.
func TestRelayArchive(t *testing.T) {
	testenv.Prove(t) // a relay sweeps some seconds after it has begun
	t.Parallel()
	for name, make := range map[string]func(testing.TB) string{"SQLite": func(tb testing.TB) string { return sqliteURL(tb.(*testing.T)) }, "PostgreSQL": testenv.NewDatabase} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relayArchives(t, make(t))
		})
	}
}

func relayArchives(t *testing.T, url string) {
	t.Helper()
	o := open(t, url)
	received := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received <- r.URL.Path }))
	defer receiver.Close()
	first, second, third := once.NewKey(), once.NewKey(), once.NewKey()
	o.add(t, outbox.Config{},
		message.Message{ID: first, Topic: "refunds", Key: "acct-1", Type: "refund", Payload: []byte("secret")},
		message.Message{ID: second, Topic: "refunds", Key: "acct-1", Type: "refund"},
		message.Message{ID: third, Topic: "mails", Type: "mail"})
	files := filepath.Join(t.TempDir(), "archive")
	relay := program(t, "relay", "--db", url, "--to", receiver.URL+"/{topic}", "--keep", "1ms", "--archive", files)
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Process.Kill(); _ = relay.Wait() })
	for range 3 {
		<-received
	}
	left := func() (n int) {
		t.Helper()
		if err := o.QueryRowContext(t.Context(), "select (select count(*) from once_outbox) + (select count(*) from once_outbox_sent)").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for end := time.Now().Add(3 * time.Minute); left() > 0; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d messages are left", left())
		}
	}
	if err := relay.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := relay.Wait(); err != nil {
		t.Error(err)
	}

	shown := func(code int, args ...string) (rows []operate.ArchivedRow) {
		t.Helper()
		out := run(t, append([]string{"archive", "show", files, "--table", "once_outbox_sent", "-o", "json"}, args...)...).want(t, code).stdout
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return rows
	}
	if rows := shown(0, first); len(rows) != 1 || rows[0].Key != first || strings.Contains(string(rows[0].Row), `"payload"`) {
		t.Errorf("%s", rows)
	}
	if rows := shown(0, first, "--scope", "refunds", "--payload"); len(rows) != 1 || rows[0].Scope != "refunds" || !strings.Contains(string(rows[0].Row), `"payload": "c2VjcmV0"`) {
		t.Errorf("%s", rows)
	}
	for id, topic := range map[string]string{second: "refunds", third: "mails"} {
		if rows := shown(0, id); len(rows) != 1 || rows[0].Scope != topic {
			t.Errorf("%s", rows)
		}
	}
	if rows := shown(3, second, "--scope", "mails"); len(rows) != 0 {
		t.Errorf("%s", rows)
	}
	run(t, "archive", "show", files, first).want(t, 3) // it is no operation
	if out := run(t, "archive", "verify", files).want(t, 0).stdout; !strings.Contains(out, "with 3 rows") {
		t.Error(out)
	}
}
