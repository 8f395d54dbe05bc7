package integration

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// until returns the first n migrations of a set.
func until(t *testing.T, set migration.Set, n int) migration.Set {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(set.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(name) >= fmt.Sprintf("%03d", n+1) {
			return err
		}
		text, err := fs.ReadFile(set.Files, name)
		files[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return migration.Set{Capability: set.Capability, Files: files}
}

// What programs wrote before topic, key and number belonged to the identity of a letter.
const (
	oldAttempt = `insert into once_deadletter_attempt (origin, consumer, source, event_id, attempt, at, node, error, trace)
 select 'inbox', 'billing', 's', ?, coalesce(max(attempt), 0) + 1, NOW, 'old', 'no', '' from once_deadletter_attempt where origin = 'inbox' and consumer = 'billing' and source = 's' and event_id = ?`
	oldLetter = `insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, KEY, seq, event_type, headers, payload, encrypted, trace, created_at,
 class, error, cause, attempts, first_failed_at, dead_at, state, redrive, reason) values (?, 'inbox', 'billing', 's', ?, ?, 't', ?, 1, 'e', ?, ?, ?, '', null, 'permanent', 'no', 'no', 1, NOW, NOW, 'dead', '', '') KEEP(uid)`
	oldID       = "insert into once_inbox (consumer, source, event_id, payload_hash, received_at, processed_at) values ('billing', 's', ?, ?, NOW, NOW)"
	oldPosition = "insert into once_inbox_position (consumer, source, topic, KEY, seq, parked, dead, moved_at) values ('billing', 's', 't', ?, 0, 0, ?, NOW) KEEP(seq)"
	oldMove     = "update once_inbox_position set moved_at = NOW, seq = ?, parked = 0, dead = ? where consumer = 'billing' and source = 's' and topic = 't' and KEY = ?"
)

func (g *testDB) old(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := g.db.ExecContext(t.Context(), dialect.Text(dialectOf[g.Kind], query), args...); err != nil {
		t.Fatal(err)
	}
}

func (g *testDB) oldLetter(t *testing.T, uid, event, key string) {
	t.Helper()
	g.old(t, oldLetter, uid+"-0000-0000-0000-000000000000", event, []byte("hash"), key, []byte{}, []byte("payload of "+key), false)
}

// withOldLetters makes g a database of the version before, with two letters, three attempts, an ID and a key.
func (g *testDB) withOldLetters(t *testing.T) *testDB {
	t.Helper()
	if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, until(t, deadletter.Migrations, 1), until(t, inbox.Migrations, 2)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		g.old(t, oldAttempt, "failing", "failing")
	}
	g.old(t, oldAttempt, "1", "1")
	g.oldLetter(t, "00000001", "1", "k")
	g.oldLetter(t, "00000002", "2", "k")
	g.old(t, oldID, "seen", payloadHash)
	g.old(t, oldPosition, "k", false)
	g.old(t, oldMove, int64(3), false, "k")
	return g
}

var payloadHash = []byte("\x2d\x71\x16\x42\xb7\x26\xb0\x44\x01\x62\x7c\xa9\xfb\xac\x32\xf5\xc8\x53\x0f\xb1\x90\x3c\xc4\xdb\x02\x25\x87\x17\x92\x1a\x48\x81") // SHA-256 of "x"

func (g *testDB) lettersAreWhole(t *testing.T) {
	t.Helper()
	for query, want := range map[string]int{
		"select count(*) from once_deadletter where topic = 't' and class = 'permanent' and state = 'dead'": 2,
		"select count(*) from once_deadletter_attempt where node = 'old' and seq = -1 and topic = ''":       3,
		"select max(attempt) from once_deadletter_attempt":                                                  2,
		"select count(*) from once_inbox where envelope is null":                                            1,
		"select count(*) from once_inbox_position where recent is null and seq = 3":                         1,
		"select count(*) from once_schema where capability in ('deadletter', 'inbox')":                      8,
	} {
		if n := g.count(t, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}

// TestLettersUpgradeKilled: the upgrade of a database with dead letters and an inbox loses its connection at each of its
// statements. The next upgrade completes it, and all that was there is there.
func TestLettersUpgradeKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		if g.Kind != harness.SQLite && g.Kind != harness.Pgx {
			testenv.Sample(t, 4)
		}
		for _, f := range killsOf[g.Kind] {
			harness.Loop(t, 5, func(at int) bool {
				g.withOldLetters(t)
				line, su := g.obstructed(t)
				line.arm(at, f)
				err := g.upgrade(t.Context(), su, deadletter.Migrations, inbox.Migrations)
				if !line.struck() {
					if err != nil {
						t.Errorf("not killed: %v", err)
					}
					return false
				}
				if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, deadletter.Migrations, inbox.Migrations); err != nil {
					t.Errorf("%s statement %d: %v", f.name, at, err)
				}
				g.lettersAreWhole(t)
				g = g.renewed(t)
				return true
			})
			g.lettersAreWhole(t)
			g = g.renewed(t)
		}
	})
}

// TestOldProgramBesideLetters: on an upgraded database the statements of the program before work, and either program goes on with
// what the other one has written.
func TestOldProgramBesideLetters(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onOldDatabases(t, func(t *testing.T, g *testDB) {
		g.withOldLetters(t)
		if err := g.upgrade(t.Context(), setup{dsn: g.DSN}, deadletter.Migrations, inbox.Migrations); err != nil {
			t.Fatal(err)
		}
		g.lettersAreWhole(t)
		_, _, s := g.repeats(t)

		id := letter.ID{Origin: letter.OriginInbox, Consumer: "billing", Source: "s", EventID: "failing", Topic: "t", Key: "k", Seq: 4}
		for _, want := range []int{3, 5} { // no attempt is forgotten, and each program counts those of the other one
			if n, _, _, err := letter.Record(t.Context(), s, id, letter.Attempt{Node: "new"}); n != want || err != nil {
				t.Errorf("attempt %d, want %d, %v", n, want, err)
			}
			g.old(t, oldAttempt, "failing", "failing")
		}

		id.EventID, id.Seq = "1", 1
		if uid, _, err := letter.DeadOf(t.Context(), s.Pool(), s.Dialect(), id, []byte("hash")); uid == "" || err != nil {
			t.Errorf("the old letter is not found, %v", err)
		}
		g.oldLetter(t, "00000003", "1", "k") // is there already
		for _, key := range []string{"k", "l"} {
			id.Key = key
			l := &letter.Letter{ID: id, Hash: []byte("hash"), Class: "permanent", Error: "no", Attempts: 1}
			if err := letter.Within(t.Context(), s, func(ctx context.Context, r sqlplane.Runner) error { return letter.Bury(ctx, r, s.Dialect(), l) }); err != nil {
				t.Error(err)
			}
		}
		g.oldLetter(t, "00000004", "1", "m")
		if n := g.count(t, "select count(*) from once_deadletter"); n != 4 {
			t.Errorf("%d letters, want 2 and those of the keys l and m", n)
		}
		attempts := 0
		if _, list, err := deadletter.New(s, deadletter.Config{}).Show(t.Context(), "00000001-0000-0000-0000-000000000000"); err != nil {
			t.Error(err)
		} else {
			attempts = len(list)
		}
		if attempts != 1 {
			t.Errorf("the old letter has %d attempts", attempts)
		}
		switch s := s.(type) {
		case store.Store[*sql.Tx]:
			besideInbox(t, g, s)
		case store.Store[pgx.Tx]:
			besideInbox(t, g, s)
		}
	})
}

func besideInbox[TX any](t *testing.T, g *testDB, s store.Store[TX]) {
	reused := 0
	told := observer(func(e inbox.Event) {
		if e.Type == inbox.EventReusedSeq {
			reused++
		}
	})
	e := once.New(s, once.Config{Observer: once.Discard})
	handle := func(order inbox.Order, id string, seq int64, want inbox.Outcome) {
		t.Helper()
		in := inbox.New(e, inbox.Config{Consumer: "billing", Order: order, Observer: told})
		m := message.Message{ID: id, Source: "s", Topic: "t", Key: "k", Seq: seq, Type: "e", Payload: []byte("x")}
		if o, err := in.Handle(t.Context(), m, func(context.Context, TX, message.Message) error { return nil }); o != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", id, o, err, want)
		}
	}
	handle(inbox.AnyOrder, "seen", 0, inbox.Duplicate)
	g.old(t, oldID, "seen by the old one", payloadHash)
	handle(inbox.AnyOrder, "seen by the old one", 0, inbox.Duplicate)

	handle(inbox.InOrder, "m3", 3, inbox.Duplicate)
	handle(inbox.InOrder, "m4", 4, inbox.Applied)
	g.old(t, oldMove, int64(5), false, "k")
	handle(inbox.InOrder, "m5", 5, inbox.Duplicate)
	handle(inbox.InOrder, "m6", 6, inbox.Applied)
	handle(inbox.InOrder, "m4", 4, inbox.Duplicate)
	if reused != 0 {
		t.Errorf("%d duplicates are told as other messages", reused)
	}
	handle(inbox.InOrder, "other", 4, inbox.Duplicate)
	if reused != 1 {
		t.Errorf("another message was told %d times", reused)
	}
}

type observer func(e inbox.Event)

// Observe implements inbox.Observer.
func (o observer) Observe(_ context.Context, e inbox.Event) { o(e) }
