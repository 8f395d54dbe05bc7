package inbox

import (
	"bytes"
	"context"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestParkedMemory: many large messages of a key wait for a missing one. When it comes, they are applied in order, each in a
// transaction of its own, and the process holds few of them at a time: in Handle, and in Run when Handle was interrupted.
// It runs beside no other test, because it measures the heap.
func TestParkedMemory(t *testing.T) {
	testenv.Prove(t)
	t.Run("pgxstore", func(t *testing.T) { testParkedMemory[pgx.Tx](t, newPgx(t)) })
	for _, name := range []string{"SQLite", "MariaDB", "MySQL"} {
		t.Run(name, func(t *testing.T) {
			testenv.Sample(t, 3)
			testParkedMemory(t, newSQL(t, name))
		})
	}
}

func testParkedMemory[TX comparable](t *testing.T, g *fixture[TX]) {
	const messages, size, most = 120, 256 << 10, 20
	in, _ := g.inbox(t, inbox.Config{Order: inbox.InOrder, MaxPayload: size})
	large := func(seq int64) message.Message {
		m := ordered("k", seq)
		m.Payload = bytes.Repeat([]byte{byte(seq)}, size)
		return m
	}
	for seq := int64(messages); seq > 1; seq-- {
		o, err := in.Handle(t.Context(), large(seq), g.book)
		want(t, o, err, inbox.Parked)
	}
	if n := g.parked(t); n != messages-1 {
		t.Fatalf("%d are parked", n)
	}
	before, peak := heap(), uint64(0)
	var last TX
	interrupted, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var applied atomic.Int64
	measured := func(ctx context.Context, tx TX, m message.Message) error {
		if len(m.Payload) != size || m.Payload[0] != byte(m.Seq) || m.Payload[size-1] != byte(m.Seq) {
			t.Errorf("the payload of message %d is another one", m.Seq)
		}
		if tx == last {
			t.Errorf("message %d shares its transaction with the one before", m.Seq)
		}
		last = tx
		if err := g.book(ctx, tx, m); err != nil {
			return err
		}
		switch n := applied.Add(1); {
		case n == messages/2:
			interrupt()
		case n%10 == 0:
			peak = max(peak, heap())
		}
		return nil
	}
	o, err := in.Handle(interrupted, large(1), measured)
	want(t, o, err, inbox.Applied)
	if n := g.parked(t); n < messages/4 {
		t.Errorf("Handle was interrupted after %d messages, and %d are parked", messages/2, n)
	}
	run(t, in, measured, func() bool { return g.count(t, "select count(*) from once_inbox_parked") == 0 })
	g.wantOnce(t, []string{"k"}, messages)
	_ = g.parked(t) // and what the position counts is true
	held := int64(peak-before) / size
	if testenv.Reportf(t, "%d messages of %d KiB: at most %d were in memory", messages, size>>10, held); held > most || peak == 0 {
		t.Errorf("the heap has grown by %d messages, at most %d are expected", held, most)
	}
}

// heap returns the bytes of objects that are in use.
func heap() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
