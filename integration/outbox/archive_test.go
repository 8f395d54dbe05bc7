package outbox

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retention/archive"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// TestRelayArchives: a message that was delivered and kept for long enough is in the archive as it was stored, encrypted if it was, before it is
// deleted.
func TestRelayArchives(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayArchives, testRelayArchives)
}

func testRelayArchives[TX any](t *testing.T, g *fixture[TX]) {
	encrypter, err := once.NewEncrypter(bytes.Repeat([]byte{1}, 32))
	must(t, err)
	dir := t.TempDir()
	files, err := archive.Open(dir)
	must(t, err)
	defer func() { _ = files.Close() }()
	kept := 0
	box := outbox.New[TX](g.store, outbox.Config{RetainDelivered: time.Millisecond, Encrypter: encrypter, Archive: func(ctx context.Context, rows []upkeep.Expired) error {
		if n := g.count(t, "select (select count(*) from once_outbox) + (select count(*) from once_outbox_sent)"); n+kept != 3 {
			t.Errorf("%d messages are left, and %d archived", n, kept)
		}
		kept += len(rows)
		return files.Write(ctx, rows)
	}})
	m, id := withID(event("refunds", "k", "t"))
	m.Payload = []byte("secret")
	plain, plainID := withID(event("mails", "", "mail"))
	plain.Payload = []byte("plain")
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error { return box.Add(ctx, tx, m) }))
	second, secondID := withID(event("refunds", "k", "t"))
	g.mustAdd(t, plain, second) // not encrypted
	var stored []byte
	must(t, g.store.Pool().Query(t.Context(), g.text("select payload from once_outbox where event_id = ?", id), func(row sqlplane.Row) error { return row.Scan(&stored) }))
	b := newInbox()
	stop := start(t, g.relayOf(box, b, outbox.RelayConfig{}))
	b.waitFor(t, 3)
	g.waitEmpty(t)
	for end := time.Now().Add(patience); g.count(t, "select count(*) from once_outbox_sent") > 0; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the messages are not swept")
		}
	}
	must(t, stop())

	type row struct {
		Topic, Key string
		Seq        int64
		EventID    string `json:"event_id"`
		EventType  string `json:"event_type"`
		Payload    string // base64
		Encrypted  bool
	}
	code := base64.StdEncoding.EncodeToString
	want := map[string]row{
		id:       {"refunds", "k", 1, id, m.Type, code(stored), true},
		secondID: {"refunds", "k", 2, secondID, second.Type, code(second.Payload), false},
		plainID:  {"mails", "", 0, plainID, plain.Type, code(plain.Payload), false},
	}
	if bytes.Contains(stored, m.Payload) {
		t.Errorf("vacuous: the payload is stored as %q", stored)
	}
	got := map[string]row{}
	for e, err := range archive.Records(dir) {
		must(t, err)
		var r row
		if err := json.Unmarshal(e.Row, &r); err != nil || e.Table != "once_outbox_sent" || e.Scope != r.Topic || e.Key != r.EventID {
			t.Errorf("%+v, %v", e, err)
		}
		got[e.Key] = r
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
