package inbox

import (
	"context"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Place is the position in the sequence of a key, in a form for people to read.
type Place struct {
	Known  bool  // true if a message of the key has arrived
	Seq    int64 // the Seq of the last message that was applied or skipped
	Parked int64 // the number of parked messages
	Dead   bool  // true if the next message of the key is a dead letter
	Below  int64 // how many messages are parked before the message seq that the caller asked for; at most 10,000 are counted
	More   bool  // true if more messages than Below may be parked before the message seq
	There  bool  // true if the message seq that the caller asked for is parked

	Failing Failing // Failing is set if the next message, Seq + 1, has arrived and its attempts fail. Failing is zero if the next message has not arrived, or if Dead is set.
}

// mostBelow limits the number of messages that Below counts, so that the query stays fast.
const mostBelow = 10_000

// Place returns the position of a key: the Seq of the last message of the key that was applied or skipped. The
// parameter seq is the Seq of any message of the key. The fields Below and There of the result describe the
// message whose Seq is the parameter seq.
func (in *Inbox[TX]) Place(ctx context.Context, source, topic, key string, seq int64) (p Place, err error) {
	s, err := in.target(source, topic, key, seq)
	if err != nil {
		return p, err
	}
	const isKey = "consumer = ? and source = ? and topic = ? and KEY = ?"
	args := []any{in.cfg.Consumer, s.source, s.topic, s.key}
	err = in.db.Pool().Query(ctx, in.statement("select seq, parked, dead from once_inbox_position where "+isKey, args...), func(row sqlplane.Row) error {
		p.Known = true
		return row.Scan(&p.Seq, &p.Parked, &p.Dead)
	})
	if err != nil || !p.Known {
		return p, err
	}
	query := in.statement("select count(*) from (select 1 from once_inbox_parked where "+isKey+" and seq < ? limit ?) b", append(args, seq, int64(mostBelow))...)
	err = in.db.Pool().Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(&p.Below) })
	if err != nil {
		return p, err
	}
	p.More = p.Below == mostBelow
	if p.There, err = in.isParked(ctx, in.db.Pool(), s, seq); err == nil && !p.Dead {
		p.Failing, err = in.failingAt(ctx, in.db.Pool(), s, p.Seq+1)
	}
	return p, err
}

// ParkedMessage is a message that waits for an earlier message of its key, in a form for people to
// read.
type ParkedMessage struct {
	Seq      int64
	ID, Type string
	ParkedAt time.Time
	NextAt   time.Time // the time of the next attempt; zero if no attempt has failed
}

// ParkedOf returns parked messages (messages that wait in the database for an earlier message) of a key in the
// order of their Seq, beginning with the first Seq that is greater than the parameter after. The parameter most
// limits the number of messages.
func ParkedOf(ctx context.Context, db sqlplane.Database, consumer, source, topic, key string, after int64, most int) (list []ParkedMessage, err error) {
	const query = `select seq, event_id, event_type, parked_at, next_at from once_inbox_parked
 where consumer = ? and source = ? and topic = ? and KEY = ? and seq > ? order by consumer, source, topic, KEY, seq limit ?`
	s := store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: []any{consumer, source, topic, key, after, int64(most)}}
	err = db.Pool().Query(ctx, s, func(row sqlplane.Row) error {
		var p ParkedMessage
		err := row.Scan(&p.Seq, &p.ID, &p.Type, (*dialect.Time)(&p.ParkedAt), (*dialect.Time)(&p.NextAt))
		list = append(list, p)
		return err
	})
	return list, err
}

// Consumers returns the names of the consumers of a database in sorted order. The list begins with the first name
// that sorts after the value of the parameter after. The parameter most limits the number of names. Consumers
// finds each name by two look-ups in indexes.
func Consumers(ctx context.Context, db sqlplane.Database, after string, most int) (list []string, err error) {
	query := dialect.Text(db.Dialect(), "select min(c) from (select min(consumer) c from once_inbox_position where consumer > ? union all select min(consumer) from once_inbox where consumer > ?) x")
	// One look-up for each name, because "distinct" would read the whole index.
	for last := after; len(list) < most; {
		var next *string
		err := db.Pool().Query(ctx, store.Statement{SQL: query, Args: []any{last, last}}, func(row sqlplane.Row) error { return row.Scan(&next) })
		if err != nil || next == nil {
			return list, err
		}
		last = *next
		list = append(list, last)
	}
	return list, nil
}
