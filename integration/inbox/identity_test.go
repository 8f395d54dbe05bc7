package inbox

import (
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// numbered is message seq of a key, by a sender that numbers its messages per key and repeats its payloads.
func numbered(key, id string, seq int64) message.Message {
	return message.Message{ID: id, Source: "s", Topic: "refunds", Key: key, Seq: seq, Type: "refund.succeeded", Payload: []byte("x")}
}

// TestKeysShareAnID: messages of two keys with the same source, ID and payload are two letters, with attempts of their own.
func TestKeysShareAnID(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testKeysShareAnID[pgx.Tx], testKeysShareAnID[*sql.Tx])
}

func testKeysShareAnID[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(2)})
	refuses := g.failing(func(message.Message) bool { return true })
	for _, key := range []string{"k", "l"} {
		if o, err := in.Handle(t.Context(), numbered(key, "1", 1), refuses); err == nil {
			t.Errorf("%s: %q after one attempt of two", key, o)
		}
	}
	for _, key := range []string{"k", "l"} {
		for range 2 { // the second one is delivered again
			o, err := in.Handle(t.Context(), numbered(key, "1", 1), refuses)
			want(t, o, err, inbox.DeadLettered)
		}
	}
	if n := g.letters(t); n != 2 {
		t.Fatalf("%d letters of 2 messages that were acknowledged", n)
	}
	g.exec(t, "update once_deadletter set redrive_at = NOW")
	run(t, in, g.book, func() bool { return g.letters(t) == 0 })
	g.wantBooked(t, "1", "1")
	for _, key := range []string{"k", "l"} {
		o, err := in.Handle(t.Context(), numbered(key, "2", 2), g.book)
		want(t, o, err, inbox.Applied)
	}
}

// TestPlaceOfALetter: the letter of one message does not acknowledge another one that has its number; and a place whose letter is
// lost is that of the next message with its number.
func TestPlaceOfALetter(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testPlaceOfALetter[pgx.Tx], testPlaceOfALetter[*sql.Tx])
}

func testPlaceOfALetter[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, Policy: soon(1)})
	refuses := g.failing(func(message.Message) bool { return true })
	changed := numbered("k", "1", 1)
	changed.Payload = []byte("y")
	for _, m := range []message.Message{numbered("k", "1", 1), numbered("k", "one", 1), changed, numbered("k", "1", 1)} {
		o, err := in.Handle(t.Context(), m, refuses)
		want(t, o, err, inbox.DeadLettered)
	}
	if n := g.letters(t); n != 3 {
		t.Errorf("%d letters of 3 messages that were acknowledged", n)
	}
	g.exec(t, "delete from once_deadletter")
	o, err := in.Handle(t.Context(), numbered("k", "1", 1), g.book)
	want(t, o, err, inbox.Applied)
	g.wantBooked(t, "1")
}

// TestSameIDWithAnotherTopicIsKept: the same source and ID with another topic, key or type is another message. It is kept, and not dropped as a duplicate.
func TestSameIDWithAnotherTopicIsKept(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testEnvelope[pgx.Tx], testEnvelope[*sql.Tx])
}

func testEnvelope[TX any](t *testing.T, g *fixture[TX]) {
	in, _ := g.inbox(t, inbox.Config{Policy: soon(1)})
	m := numbered("k", "1", 1)
	topic, key, kind, again := m, m, m, m
	topic.Topic, key.Key, kind.Type, again.Seq = "charges", "l", "refund.failed", 2
	batch := []message.Message{m, topic, key, kind, again}
	for i, w := range []inbox.Outcome{inbox.Applied, inbox.DeadLettered, inbox.DeadLettered, inbox.DeadLettered, inbox.Duplicate} {
		o, err := in.Handle(t.Context(), batch[i], g.book)
		want(t, o, err, w)
	}
	for i := range batch {
		batch[i].ID = "2"
	}
	if got := outcomes(in.HandleBatch(t.Context(), batch, g.book)); got != "applied dead_lettered dead_lettered dead_lettered duplicate" {
		t.Error(got)
	}
	g.wantBooked(t, "1", "2")
	if n := g.count(t, "select count(*) from once_deadletter where class = 'mismatch' and payload_hash <> ''"); n != 6 {
		t.Errorf("%d letters", n)
	}

	// What is refused before any handler, by a consumer that cannot decode it for example, does not take the row of another one.
	topic.ID = "1"
	must(t, in.Refuse(t.Context(), topic, "undecodable", errRefused))
	g.exec(t, "update once_deadletter set redrive_at = NOW where topic = 'charges' and event_id = '1'")
	g.exec(t, "update once_inbox set envelope = null where event_id = '1'") // an older program has noted it
	o, err := in.Handle(t.Context(), m, g.book)
	want(t, o, err, inbox.Duplicate)
}

// TestMalformedKeys: of what is malformed a letter has what can be stored; two that are alike then are still two.
func TestMalformedKeys(t *testing.T) {
	t.Parallel()
	g := newSQL(t, "SQLite")
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder})
	for range 2 {
		for _, end := range []string{"1", "2"} {
			o, err := in.Handle(t.Context(), numbered(strings.Repeat("k", 300)+end, "1", 1), g.book)
			want(t, o, err, inbox.DeadLettered)
		}
	}
	if n := g.letters(t); n != 2 {
		t.Errorf("%d letters of 2 messages that were acknowledged", n)
	}
}

// TestReusedSeq: another message with a number that was applied is dropped, and the observer is told.
func TestReusedSeq(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testReusedSeq[pgx.Tx], testReusedSeq[*sql.Tx])
}

func testReusedSeq[TX any](t *testing.T, g *fixture[TX]) {
	for _, order := range []inbox.Order{inbox.InOrder, inbox.LatestVersion} {
		in, told := g.inbox(t, inbox.Config{Consumer: fmt.Sprint(order), Order: order})
		first := make([]message.Message, 12)
		for i := range first {
			first[i] = numbered("k", fmt.Sprintf("%d-%d", order, i+1), int64(i+1))
		}
		g.handle(t, in, first[1:3]...) // parked, or applied
		g.handle(t, in, first...)
		g.handle(t, in, first...)
		if n := len(told.of(inbox.EventReusedSeq)); n != 0 {
			t.Errorf("order %d: %d told of duplicates", order, n)
		}
		g.handle(t, in, numbered("k", "lost", 12), numbered("k", "lost too", 8), numbered("k", "too old to know", 1))
		list := told.of(inbox.EventReusedSeq)
		if len(list) != 2 || list[0].Message.ID != "lost" || list[1].Message.ID != "lost too" || list[0].Err == nil {
			t.Errorf("order %d: %+v", order, list)
		}
	}
	if n := g.count(t, "select count(*) from effect where event like 'lost%'"); n != 0 {
		t.Errorf("%d are applied", n)
	}
}

// handle handles messages, each alone.
func (g *fixture[TX]) handle(t *testing.T, in *inbox.Inbox[TX], messages ...message.Message) {
	t.Helper()
	for _, m := range messages {
		_, err := in.Handle(t.Context(), m, g.book)
		must(t, err)
	}
}

// TestMaxJump: a message whose number is too large to be true does not make later ones late. It is kept, and a redrive applies it.
func TestMaxJump(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testMaxJump[pgx.Tx], testMaxJump[*sql.Tx])
}

func testMaxJump[TX any](t *testing.T, g *fixture[TX]) {
	for name, cfg := range map[string]inbox.Config{
		"latest": {Order: inbox.LatestVersion}, "bounded": {Order: inbox.LatestVersion, MaxJump: 10}, "any": {Order: inbox.InOrder, FromAny: true},
	} {
		cfg.Consumer, cfg.MaxPayload = name, 100
		in, _ := g.inbox(t, cfg)
		forged := numbered(name, name+"-forged", math.MaxInt64)
		if cfg.MaxJump > 0 {
			forged.Seq = cfg.MaxJump + 1
		}
		large := forged
		large.ID, large.Payload = name+"-large", make([]byte, 101)
		for range 2 {
			for _, m := range []message.Message{forged, large} {
				o, err := in.Handle(t.Context(), m, g.book)
				want(t, o, err, inbox.DeadLettered)
			}
		}
		for seq := range int64(2) {
			o, err := in.Handle(t.Context(), numbered(name, fmt.Sprint(name, seq+1), seq+1), g.book)
			want(t, o, err, inbox.Applied)
		}
	}
	if n := g.count(t, "select count(*) from once_deadletter where class = 'seq_jump' and error like '%Try: %MaxJump%' and state = 'dead'"); n != 3 || g.letters(t) != 6 {
		t.Errorf("%d letters, %d in all", n, g.letters(t))
	}
	g.exec(t, "update once_deadletter set redrive_at = NOW where event_id = 'latest-forged'")
	in, _ := g.inbox(t, inbox.Config{Consumer: "latest", Order: inbox.LatestVersion})
	run(t, in, g.book, func() bool { return g.letters(t) == 5 })
	g.wantBooked(t, "any1", "any2", "bounded1", "bounded2", "latest1", "latest2", "latest-forged")
}
