package kafkabroker

import (
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partition knows which records of a partition are done.
type partition struct {
	client *kgo.Client
	topic  string
	number int32
	most   int        // records at work, until no more are fetched
	window int        // records behind the first one that is not done, until no more are fetched
	share  func() int // bytes of records that wait for long, until no more are fetched
	log    *slog.Logger

	mu      sync.Mutex
	records []*receipt // from the first one that is not done on, by offset
	open    int        // those of them that are not done
	apart   int        // those of open that wait for long: they do not count against most
	bytes   int        // of these
	paused  bool
	stuck   time.Time // since when it is paused because of what waits for long; zero: it is not
	lost    bool      // another process has the partition
}

// receipt is what is kept of a record until all before it are done.
type receipt struct {
	partition *partition
	epoch     int32
	offset    int64
	apart     int // its bytes, if it waits for long
	done      bool
}

// add notes a record that was fetched.
func (p *partition) add(r *kgo.Record) *receipt {
	p.mu.Lock()
	defer p.mu.Unlock()
	noted := &receipt{partition: p, epoch: r.LeaderEpoch, offset: r.Offset}
	p.records = append(p.records, noted)
	p.open++
	p.pause()
	return noted
}

// Ack implements [consume.Receipt]. The offset that is committed is that of the first record that is not done: a
// later one is never committed before it.
func (r *receipt) Ack() {
	p := r.partition
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.done || p.lost { // what another process commits is not to be changed
		return
	}
	r.done = true
	p.open--
	if r.apart > 0 {
		p.apart--
		p.bytes -= r.apart
	}
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

// Again implements [consume.Receipt]: Kafka delivers nothing again to a process that has it.
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

// Extend implements [consume.Receipt]: the client tells the group that it lives.
func (r *receipt) Extend() {}

// pause stops the fetching of the partition while too much of it waits, and lets other partitions go on.
func (p *partition) pause() {
	of := map[string][]int32{p.topic: {p.number}}
	work, share := p.open-p.apart, p.share()
	stuck := len(p.records) >= p.window || p.bytes >= share
	full := stuck || work >= p.most
	if stuck && p.stuck.IsZero() && !p.lost {
		p.stuck = time.Now()
		p.log.Warn("once: kafkabroker: a partition is not fetched now, because messages in it fail, or wait for one of their key. Try: look at why, or set a larger Window or PrefetchBytes",
			"topic", p.topic, "partition", p.number, "offset", p.records[0].offset, "records", len(p.records), "bytes", p.bytes)
	}
	switch {
	case p.lost || full == p.paused:
	case full:
		p.paused = true
		p.client.PauseFetchPartitions(of)
	case work <= p.most/2 && len(p.records) <= p.window/2 && p.bytes <= share/2:
		p.paused = false
		p.client.ResumeFetchPartitions(of)
		if !p.stuck.IsZero() {
			p.log.Info("once: kafkabroker: the partition is fetched again", "topic", p.topic, "partition", p.number, "since", p.stuck)
			p.stuck = time.Time{}
		}
	}
}

func (p *partition) stuckSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck
}

// end lets no record of the partition be committed any more.
func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = true
	p.records = nil
	if p.paused {
		p.client.ResumeFetchPartitions(map[string][]int32{p.topic: {p.number}})
	}
}
