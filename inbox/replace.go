package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"

	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store/sqlplane"
)

// A dead letter of class "too_large" does not contain the payload, and a letter of class "malformed" does not contain
// what the sender meant, so no redrive can apply them. Only the sender has the content. If the sender sends the
// message again and the inbox now accepts it, the message is applied and replaces the letter, in one transaction.
// After a person has discarded the letter, the message stays given up.

// emptyHash is the hash of a payload that a receiver has not stored.
var emptyHash = sha256.Sum256(nil)

// replaceable sets it.replaces to the UID of the letter whose place the message takes, if there is such a letter. k is
// the row of the message, which says that the message was given up.
func (in *Inbox[TX]) replaceable(ctx context.Context, r sqlplane.Runner, it *item, k *known) error {
	if it.isMarker() {
		return nil
	}
	same := (bytes.Equal(k.hash, it.hash) || bytes.Equal(k.hash, emptyHash[:])) && sameBody(k.envelope, it.envelope)
	waits := false
	id := in.letterID(&it.m)
	s := in.statement("select uid, topic, KEY, event_type, class from once_deadletter where origin = ? and consumer = ? and source = ? and event_id = ? and payload_hash = ? and state = 'dead'",
		id.Origin, id.Consumer, id.Source, id.EventID, k.hash)
	err := r.Query(ctx, s, func(row sqlplane.Row) error {
		var uid, topic, key, kind, class string
		err := row.Scan(&uid, &topic, &key, &kind, &class)
		if err != nil || !sameBody(k.envelope, letter.Envelope(topic, key, kind)) { // another letter with this ID has not written the row
			return err
		}
		waits = true
		// The malformed message may have another payload, topic, key and type than the message that can be applied.
		if class == classMalformed || class == classTooLarge && same {
			it.replaces = uid
		}
		return nil
	})
	if err != nil || waits {
		return err
	}
	// The letter was resolved after k was read.
	now, err := in.find(ctx, r, &it.m)
	if now != nil && now.processed {
		it.forget()
		it.known(now)
	}
	return err
}

// replace gives the row of a letter to the message that takes its place, before the handler runs. The error is errKnown if the letter
// was resolved meanwhile.
func (in *Inbox[TX]) replace(ctx context.Context, r sqlplane.Runner, it *item) error {
	if err := in.resolveReplaced(ctx, r, it); err != nil {
		return err
	}
	n, err := r.Exec(ctx, in.statement("update once_inbox set payload_hash = ?, envelope = ?, received_at = NOW, processed_at = NOW where consumer = ? and source = ? and event_id = ? and processed_at is null",
		it.hash, it.envelope, in.cfg.Consumer, it.m.Source, it.m.ID))
	if err == nil && n == 0 {
		return errKnown
	}
	return err
}

// resolveReplaced ends the letter whose place a message takes, in the transaction that applies the message.
func (in *Inbox[TX]) resolveReplaced(ctx context.Context, r sqlplane.Runner, it *item) error {
	ok, err := letter.Replace(ctx, r, in.db.Dialect(), it.replaces, letter.StateApplied)
	if err == nil && !ok {
		return errKnown
	}
	return err
}

// buryReplaced ends the letter whose place a message takes, because the message becomes a dead letter itself:
// the new letter has the payload, so a redrive can apply it.
func (in *Inbox[TX]) buryReplaced(ctx context.Context, r sqlplane.Runner, it *item) error {
	if it.replaces == "" {
		return nil
	}
	ok, err := letter.Replace(ctx, r, in.db.Dialect(), it.replaces, letter.StateStale)
	if !ok || err != nil || it.ordered {
		return err
	}
	_, err = r.Exec(ctx, in.statement("update once_inbox set payload_hash = ?, envelope = ? where consumer = ? and source = ? and event_id = ? and processed_at is null",
		it.hash, it.envelope, in.cfg.Consumer, it.m.Source, it.m.ID))
	return err
}
