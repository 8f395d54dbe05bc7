package main

import (
	"context"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// claimByHand reads the first messages, and deleteByHand deletes delivered ones.
const (
	relayBatch  = 1000
	claimByHand = `select id, part, topic, key, seq, event_id, event_type, source, headers, payload, trace, created_at
 from once_outbox order by part, id limit $1`
	tailsByHand = `select m.part, m.topic, m.id from generate_series(0, 63) x(part) cross join lateral
 (select part, topic, id from once_outbox where part = x.part::smallint and id > $1 offset 0) m`
	deleteByHand = `delete from once_outbox using unnest($1::smallint[], $2::bigint[]) x(part, id) where once_outbox.part = x.part and once_outbox.id = x.id`
)

// rawLoop is a hand-written consumer. seen is called with the number of messages of a finished batch. It polls as a relay does: 1 ms after a
// successful claim, else 5 ms, and a quarter more each time. With find it reads twice, as a relay does: the new rows of all parts, and then, if any
// exist, the messages.
func (f *relayField) rawLoop(find bool, seen func(int)) consumer {
	return func(ctx context.Context, p outbox.Publisher, began func()) error {
		const least, most = 5 * time.Millisecond, time.Second
		began()
		idle := least
		var high int64
		for ctx.Err() == nil {
			claimed := time.Now()
			found := true
			if find {
				var err error
				if found, err = f.rawTails(context.WithoutCancel(ctx), &high); err != nil {
					return err
				}
			}
			n := 0
			if found {
				var err error
				if n, err = f.rawBatch(context.WithoutCancel(ctx), p); err != nil {
					return err
				}
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

// rawTails reports whether a part has a message above an id, and sets it to the highest one.
func (f *relayField) rawTails(ctx context.Context, high *int64) (found bool, err error) {
	rows, err := f.pool.Query(ctx, tailsByHand, *high)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var part int16
		var topic string
		var id int64
		if err := rows.Scan(&part, &topic, &id); err != nil {
			return false, err
		}
		*high, found = max(*high, id), true
	}
	return found, rows.Err()
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
