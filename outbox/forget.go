package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Forgotten is the result of [Box.Forget].
type Forgotten struct {
	Erased  int64 // how many delivered messages had their payload and headers erased by this call
	Waiting int64 // how many messages still wait for their delivery; waiting messages keep their payload and headers
}

// Forget erases the payloads and headers of the kept delivered messages with a topic and key: see
// Config.RetainDelivered. The IDs, sequence numbers and times of the messages are kept. Forget does not change
// messages that wait for their delivery, because they would be delivered without content. If Forgotten.Waiting
// is not 0, call Forget again after the delivery of the waiting messages, or skip the waiting messages. Forget
// erases neither dead letters nor the copies at the broker and its consumers.
//
// If Forget returns an error, nothing has changed, unless the error has the kind [store.KindLost]. After any
// error, Forget can be called again.
func (b *Box[TX]) Forget(ctx context.Context, topic, key, reason string) (f Forgotten, err error) {
	if err := errors.Join(checkTarget(topic, key), checkReason(reason)); err != nil {
		return Forgotten{}, err
	}
	if key == "" {
		return Forgotten{}, errors.New("outbox: the key is empty, and messages without a key cannot be chosen together. Try: a key that once outbox list has shown")
	}
	part, earlier := int64(partOf(topic, key)), int64(earlierPartOf(topic, key))
	err = b.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, r sqlplane.Runner) error {
		f = Forgotten{}
		// A write comes first, because on SQLite a reader cannot become a writer after another transaction has
		// written. The write also keeps other transactions from adding messages of the key meanwhile.
		if _, err := r.Exec(ctx, b.statement("update once_stream set seq = seq where topic = ? and KEY = ?", topic, key)); err != nil {
			return err
		}
		// The count comes first: if a relay delivers a message between the two statements, this message counts
		// as waiting, and is erased as well.
		count := b.statement("select count(*) from once_outbox where topic = ? and KEY = ? and seq > 0", topic, key)
		if err := r.Query(ctx, count, func(row sqlplane.Row) error { return row.Scan(&f.Waiting) }); err != nil {
			return err
		}
		var err error
		f.Erased, err = r.Exec(ctx, b.statement("update once_outbox_sent set headers = ?, payload = ?, encrypted = ? where part in (?, ?) and topic = ? and KEY = ? and (length(payload) > 0 or length(headers) > 0)",
			[]byte{}, []byte{}, false, part, earlier, topic, key))
		if err != nil {
			return err
		}
		return b.audit(ctx, r, "outbox forget", topic, key, reason, fmt.Sprintf("%d delivered messages erased, %d wait for their delivery", f.Erased, f.Waiting))
	})
	return f, err
}
