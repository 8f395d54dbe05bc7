package inbox

import (
	"context"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Place is how far a key with an order is, for people.
type Place struct {
	Known  bool  // the key has had a message
	Seq    int64 // of the last message that was applied or skipped
	Parked int64 // messages that wait
	Dead   bool  // the next message is a dead letter
	Below  int64 // parked messages before the one that was asked for
	There  bool  // the one that was asked for is parked
}

// Place returns how far a key is. Seq is that of a message, of which Place says whether it is parked.
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
	var there int64
	query := in.statement("select count(case when seq < ? then 1 end), count(case when seq = ? then 1 end) from once_inbox_parked where "+isKey, append([]any{seq, seq}, args...)...)
	err = in.db.Pool().Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(&p.Below, &there) })
	p.There = there > 0
	return p, err
}

// Consumers returns the first consumers of a database that have keys with an order, each found by one look at an index.
func Consumers(ctx context.Context, db sqlplane.Database, most int) (list []string, err error) {
	query := dialect.Text(db.Dialect(), "select min(consumer) from once_inbox_position where consumer > ?")
	for last := ""; len(list) < most; {
		var next *string
		err := db.Pool().Query(ctx, store.Statement{SQL: query, Args: []any{last}}, func(row sqlplane.Row) error { return row.Scan(&next) })
		if err != nil || next == nil {
			return list, err
		}
		last = *next
		list = append(list, last)
	}
	return list, nil
}
