package kafkabroker

// The tests with servers are in integration/broker and integration/consumer: "make test-of DIR=broker/kafkabroker" runs them after these.

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// newTestPartition returns a partition of a client that never connects.
func newTestPartition(t *testing.T, most, window int) (*partition, func() int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("refunds"), kgo.AutoCommitMarks())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p := &partition{client: client, topic: "refunds", most: most, window: window, share: func() int { return 1000 }, log: slog.New(slog.DiscardHandler)}
	return p, func() int64 { return client.MarkedOffsets()["refunds"][0].Offset }
}

func (p *partition) isPaused() bool { return len(p.client.PauseFetchPartitions(nil)["refunds"]) > 0 }

// TestLowestOffset: the offset that is committed is never behind a record that is not done; gaps between offsets do not matter.
func TestLowestOffset(t *testing.T) {
	p, marked := newTestPartition(t, 100, 100)
	var receipts []*receipt
	for _, offset := range []int64{10, 11, 15, 16, 17} {
		receipts = append(receipts, p.add(&kgo.Record{Topic: "refunds", Offset: offset}))
	}
	for _, step := range []struct {
		ack  int
		want int64
	}{{2, 0}, {0, 11}, {0, 11}, {1, 16}, {4, 16}, {3, 18}} {
		receipts[step.ack].Ack()
		if got := marked(); got != step.want {
			t.Errorf("after record %d: offset %d is to be committed, want %d", receipts[step.ack].offset, got, step.want)
		}
	}
	if p.open != 0 || len(p.records) != 0 {
		t.Errorf("%d records are open, %d noted", p.open, len(p.records))
	}
}

// TestLostPartition: what another process has is not committed any more.
func TestLostPartition(t *testing.T) {
	p, marked := newTestPartition(t, 100, 100)
	first, second := p.add(&kgo.Record{Offset: 1}), p.add(&kgo.Record{Offset: 2})
	first.Ack()
	p.end()
	second.Ack()
	if got := marked(); got != 2 {
		t.Errorf("offset %d is to be committed", got)
	}
}

// TestPauseOfABusyPartition: a partition is not fetched while too many of its records are at work, or wait behind one that is.
func TestPauseOfABusyPartition(t *testing.T) {
	p, _ := newTestPartition(t, 4, 100)
	var receipts []*receipt
	add := func(n int, want bool) {
		t.Helper()
		for range n {
			receipts = append(receipts, p.add(&kgo.Record{Offset: int64(len(receipts))}))
		}
		if p.isPaused() != want {
			t.Errorf("after %d records: paused is %v", len(receipts), !want)
		}
	}
	ack := func(i int, want bool) {
		t.Helper()
		receipts[i].Ack()
		if p.isPaused() != want {
			t.Errorf("after record %d was done: paused is %v", i, !want)
		}
	}
	add(3, false)
	add(1, true)
	ack(3, true)
	ack(2, false)
	p.window = 6
	add(1, false)
	ack(4, false)
	add(1, true) // six records from the first one that is not done on
	ack(5, true)
	ack(0, true)
	ack(1, false)
	add(4, true)
	p.end()
	if p.isPaused() {
		t.Error("a partition that comes back is paused")
	}
}

// TestPauseApart: records that wait for long do not keep others of their partition from being fetched, until they have the share of the
// partition in bytes.
func TestPauseApart(t *testing.T) {
	p, _ := newTestPartition(t, 4, 100)
	var receipts []*receipt
	for i := range 40 {
		r := p.add(&kgo.Record{Offset: int64(i)})
		r.Apart(100)
		receipts = append(receipts, r)
		if want := i >= 9; p.isPaused() != want || p.stuckSince().IsZero() == want {
			t.Fatalf("after %d records: paused is %v", i+1, !want)
		}
	}
	for i, r := range receipts {
		r.Ack()
		if want := i < 34; p.isPaused() != want || p.stuckSince().IsZero() == want {
			t.Fatalf("after record %d was done: paused is %v", i, !want)
		}
	}
	if p.open != 0 || p.apart != 0 || p.bytes != 0 {
		t.Errorf("%d records are open, %d wait, %d bytes", p.open, p.apart, p.bytes)
	}
}
