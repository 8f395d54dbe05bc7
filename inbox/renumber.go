package inbox

import (
	"context"
	"fmt"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store/sqlplane"
)

// Renumber makes the inbox accept the numbers (Message.Seq) of a sender whose database was restored from a
// backup. The parameter source names the sender, and the parameter after is the number that outbox.Box.Renumber
// has returned. After the restore, the next message of each key of source has the number after+1. The numbers
// between the last applied message of a key and after+1 are never used. Keys that wait for one of these unused
// numbers continue with the message after+1. Renumber returns the number of keys that continue.
//
// Before the call, apply all messages that the sender has sent, or accept their loss: a message with a smaller
// number that arrives later counts as a duplicate. If an earlier message of a key is parked (stored until earlier
// messages are applied) or is a dead letter, the key keeps waiting until a person decides. Like Skip, Renumber
// writes the operator and the reason to the audit (the table once_audit). You can call Renumber again: then keys
// that have begun to wait since the first call also continue.
func (in *Inbox[TX]) Renumber(ctx context.Context, source string, after int64, who, reason string) (keys int, err error) {
	s, err := in.target(source, "", "-", after)
	if err != nil {
		return 0, err
	}
	if err := checkSigned(who, reason); err != nil {
		return 0, err
	}
	err = letter.Within(ctx, in.db, func(ctx context.Context, r sqlplane.Runner) error {
		_, err := r.Exec(ctx, in.statement("insert into once_inbox_start (consumer, source, seq) values (?, ?, ?) KEEP(seq)", in.cfg.Consumer, s.source, after))
		if err != nil {
			return err
		}
		_, err = r.Exec(ctx, audit.Insert(in.db.Dialect(), audit.Entry{
			Who: who, Action: "inbox renumber", Scope: printable.Cut(in.cfg.Consumer+" "+s.source, keyname.MaxScope), Reason: reason, Detail: fmt.Sprintf("after %d", after),
		}))
		return err
	})
	// The list is read in pages, because each page is written before the next one is read.
	for last := (stream{source: s.source}); err == nil; {
		var some []stream
		if some, err = in.waitingAt(ctx, last, after+1); err != nil || len(some) == 0 {
			break
		}
		for _, k := range some {
			if err = in.StartAt(ctx, k.source, k.topic, k.key, after+1, who, reason); err != nil {
				break
			}
			keys++
		}
		last = some[len(some)-1]
	}
	return keys, err
}

// waitingAt lists a page of the keys that sort after the key after, and whose first parked message is seq.
func (in *Inbox[TX]) waitingAt(ctx context.Context, after stream, seq int64) (list []stream, err error) {
	const query = `select k.topic, k.KEY from once_inbox_parked k join once_inbox_position p on p.consumer = k.consumer and p.source = k.source and p.topic = k.topic and p.KEY = k.KEY
 where k.consumer = ? and k.source = ? and (k.topic > ? or k.topic = ? and k.KEY > ?) and k.seq = ? and p.seq < k.seq - 1 and not p.dead and not exists (
  select 1 from once_inbox_parked e where e.consumer = k.consumer and e.source = k.source and e.topic = k.topic and e.KEY = k.KEY and e.seq < k.seq)
 order by k.topic, k.KEY limit ?`
	err = in.db.Pool().Query(ctx, in.statement(query, in.cfg.Consumer, after.source, after.topic, after.topic, after.key, seq, int64(maxGaps)), func(row sqlplane.Row) error {
		s := stream{source: after.source}
		err := row.Scan(&s.topic, &s.key)
		list = append(list, s)
		return err
	})
	return list, err
}
