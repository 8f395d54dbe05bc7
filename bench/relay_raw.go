package main

import (
	"context"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// claimByHand reads the first messages, and deleteByHand deletes what was delivered.
const (
	relayBatch  = 1000
	claimByHand = `select id, part, topic, key, seq, event_id, event_type, source, headers, payload, trace, created_at
 from once_outbox order by part, id limit $1`
	deleteByHand = `delete from once_outbox using unnest($1::smallint[], $2::bigint[]) x(part, id) where once_outbox.part = x.part and once_outbox.id = x.id`
)

// rawLoop is a consumer by hand. seen is called with the number of messages of a batch that is done. It polls as a relay
// does: 1 ms after a claim that has found something, else 5 ms, and a quarter more each time.
func (f *relayField) rawLoop(seen func(int)) consumer {
	return func(ctx context.Context, p outbox.Publisher, began func()) error {
		const least, most = 5 * time.Millisecond, time.Second
		began()
		idle := least
		for ctx.Err() == nil {
			claimed := time.Now()
			n, err := f.rawBatch(context.WithoutCancel(ctx), p)
			if err != nil {
				return err
			}
			wait := time.Millisecond - time.Since(claimed)
			if n == 0 {
				wait, idle = idle, min(idle+idle/4, most)
			} else {
				idle = least
				if seen != nil {
					seen(n)
				}
			}
			sleep(ctx, wait)
		}
		return nil
	}
}

func (f *relayField) rawBatch(ctx context.Context, p outbox.Publisher) (int, error) {
	rows, err := f.pool.Query(ctx, claimByHand, relayBatch)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var ids []int64
	var parts []int16
	var messages []message.Message
	for rows.Next() {
		var id int64
		var part int16
		var seq *int64
		var headers []byte
		var m message.Message
		if err := rows.Scan(&id, &part, &m.Topic, &m.Key, &seq, &m.ID, &m.Type, &m.Source, &headers, &m.Payload, &m.Trace, &m.CreatedAt); err != nil {
			return 0, err
		}
		if seq != nil {
			m.Seq = *seq
		}
		ids, parts, messages = append(ids, id), append(parts, part), append(messages, m)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return 0, err
	}
	p.Publish(ctx, messages)
	_, err = f.pool.Exec(ctx, deleteByHand, parts, ids)
	return len(ids), err
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
