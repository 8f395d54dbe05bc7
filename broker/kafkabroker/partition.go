package kafkabroker

import (
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partition records which records of a partition are finished.
type partition struct {
	client *kgo.Client
	topic  string
	number int32
	most   int        // if more records are being worked on, no more are fetched
	window int        // if more records follow the first unfinished one, no more are fetched
	share  func() int // returns the limit of the bytes of long-waiting records; beyond it no more records are fetched
	log    *slog.Logger

	mu      sync.Mutex
	records []*receipt // from the first unfinished record on, by offset
	open    int        // the number of unfinished records
	apart   int        // the number of unfinished records that wait for a long time: they do not count against most
	bytes   int        // the size of these records
	paused  bool
	stuck   time.Time // when the partition was paused because of its waiting records; zero if it was not
	lost    bool      // another process has the partition
}

// receipt belongs to a record until all earlier records are finished.
type receipt struct {
	partition *partition
	epoch     int32
	offset    int64
	apart     int // the size of the record, if it waits for a long time
	done      bool
}

// add adds a record that was fetched.
func (p *partition) add(r *kgo.Record) *receipt {
	p.mu.Lock()
	defer p.mu.Unlock()
	noted := &receipt{partition: p, epoch: r.LeaderEpoch, offset: r.Offset}
	p.records = append(p.records, noted)
	p.open++
	// The new record may be the one that reaches a limit.
	p.pause()
	return noted
}

// Ack implements [consume.Receipt]. The committed offset is the offset of the first record that is not yet acknowledged. So the offset of a later
// record is never committed before an earlier record is acknowledged.
func (r *receipt) Ack() {
	p := r.partition
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.done || p.lost { // the commits of another process must not be changed
		return
	}
	r.done = true
	p.open--
	if r.apart > 0 {
		p.apart--
		p.bytes -= r.apart
	}
	// Only the records at the beginning that are all finished can be committed.
	var last *receipt
	for len(p.records) > 0 && p.records[0].done {
		last = p.records[0]
		p.records[0] = nil
		p.records = p.records[1:]
	}
	if last != nil {
		p.client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{p.topic: {p.number: {Epoch: last.epoch, Offset: last.offset + 1}}})
	}
	p.pause()
}

// Again implements [consume.Receipt]. It returns false, because Kafka never delivers a record to the same process again.
func (r *receipt) Again(time.Duration) bool { return false }

// Apart implements [consume.Receipt].
func (r *receipt) Apart(bytes int) {
	p := r.partition
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.done || p.lost {
		return
	}
	r.apart = bytes
	p.apart++
	p.bytes += bytes
	p.pause()
}

// Extend implements [consume.Receipt]. It does nothing, because the Kafka client sends the heartbeats of the consumer group.
func (r *receipt) Extend() {}

// pause stops the fetch of the partition while too many of its records wait. Other partitions continue.
func (p *partition) pause() {
	of := map[string][]int32{p.topic: {p.number}}
	work, share := p.open-p.apart, p.share()
	stuck := len(p.records) >= p.window || p.bytes >= share
	full := stuck || work >= p.most
	if stuck && p.stuck.IsZero() && !p.lost {
		p.stuck = time.Now()
		p.log.Warn("once: kafkabroker: fetching of a partition is paused, because too many of its messages fail or wait for an earlier message of their key. Try: once inbox list, which shows why they wait; or a larger Window or PrefetchBytes",
			"topic", p.topic, "partition", p.number, "offset", p.records[0].offset, "records", len(p.records), "bytes", p.bytes)
	}
	switch {
	// A partition that belongs to another process must not be paused here.
	case p.lost || full == p.paused:
	case full:
		p.paused = true
		p.client.PauseFetchPartitions(of)
	// The fetch is resumed only at half of the limits, so that it does not stop and start for each record.
	case work <= p.most/2 && len(p.records) <= p.window/2 && p.bytes <= share/2:
		p.paused = false
		p.client.ResumeFetchPartitions(of)
		if !p.stuck.IsZero() {
			p.log.Info("once: kafkabroker: fetching of the partition is resumed", "topic", p.topic, "partition", p.number, "since", p.stuck)
			p.stuck = time.Time{}
		}
	}
}

func (p *partition) stuckSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck
}

// end prevents further commits for the partition.
func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = true
	p.records = nil
	// If the partition returns to this process, the client must fetch it again.
	if p.paused {
		p.client.ResumeFetchPartitions(map[string][]int32{p.topic: {p.number}})
	}
}
