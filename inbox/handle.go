package inbox

import (
	"context"
	"errors"
	"slices"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// Handle applies one message. If the error is nil, acknowledge the message: this call or an earlier call has
// applied the message, has stored it until the earlier messages of its key are applied, or has made it a dead
// letter. After an error the message must be delivered again, but not before the time that [retry.Classify]
// finds in the error.
//
// fn runs in the transaction that also records that the message was applied. After the commit, Handle applies the
// parked messages (stored messages that have waited for this message) that are now next in their key. Handle
// applies each parked message in its own transaction, and does not return the results of parked messages.
//
// Cancelling ctx ends fn's statements, but not a COMMIT. If the answer to a COMMIT is lost, Handle asks the
// database whether the message was applied, before Handle returns.
func (in *Inbox[TX]) Handle(ctx context.Context, m message.Message, fn Handler[TX]) (Outcome, error) {
	r := in.HandleBatch(ctx, []message.Message{m}, fn)[0]
	return r.Outcome, r.Err
}

// HandleBatch applies messages in one transaction, and returns the result of each message, in the order of
// messages. If a message fails, HandleBatch applies the messages again, each under a savepoint, so that the other
// messages of the batch can succeed. After a message has failed, later messages of the same source, topic and key
// are not tried in this batch, even with AnyOrder. If the handler of a message does not return in time
// (Config.HandlerTimeout), the earlier messages of the batch are applied, and the later messages of the batch
// must be delivered again.
//
// HandleBatch calls fn sequentially, in the order of messages. If Config.Order is [InOrder] or [LatestVersion],
// the messages of one key must be in the order of their Seq.
func (in *Inbox[TX]) HandleBatch(ctx context.Context, messages []message.Message, fn Handler[TX]) []Result {
	items := make([]*item, len(messages))
	first := make(map[identity]*item, len(messages))
	var pending, large []*item
	redelivered := false
	for i, m := range messages {
		m, err := in.cfg.checked(m)
		it := in.newItem(m)
		items[i] = it
		switch {
		case err != nil:
			// A message that is not valid has no usable position, so it must not block its key.
			it.ordered = false
			in.refuse(ctx, it, classMalformed, err)
			continue
		case len(m.Payload) > in.cfg.MaxPayload:
			large = append(large, it)
			continue
		}
		if !it.ordered {
			// Two inserts of the same ID would fail in one transaction, so the second message gets the result
			// of the first.
			if it.twin = first[it.identity()]; it.twin != nil {
				continue
			}
			first[it.identity()] = it
			redelivered = redelivered || m.Delivery > 1
		}
		pending = append(pending, it)
	}
	if redelivered && len(pending) > 1 { // the look-up saves a transaction that would fail
		pending = in.skipKnown(ctx, pending)
	}
	if in.cfg.fromAny() {
		in.firsts.arrive(items, in.cfg.MaxJump)
		defer in.keepFirsts(ctx, items)
	}
	in.handle(ctx, pending, fn)
	for _, it := range large { // after pending, because a large message may follow the pending messages in its key
		in.refuse(ctx, it, classTooLarge, errTooLarge(len(it.m.Payload), in.cfg.MaxPayload))
	}
	results := make([]Result, len(items))
	for i, it := range items {
		if it.twin != nil {
			in.finishDuplicate(ctx, it)
		}
		results[i] = *it.result
		results[i].Wait = it.wait
	}
	return results
}

// skipKnown finishes the items whose IDs are stored already, and returns the other items.
func (in *Inbox[TX]) skipKnown(ctx context.Context, items []*item) (rest []*item) {
	if found, err := in.findAll(ctx, items); found == 0 || err != nil {
		return items // nothing is known, or the look-up failed: the transaction finds stored IDs by itself
	}
	for _, it := range items {
		if it.outcome == "" {
			rest = append(rest, it)
			continue
		}
		in.finish(ctx, it)
	}
	return rest
}

// finishDuplicate finishes a message with the same ID as an earlier message of the batch.
func (in *Inbox[TX]) finishDuplicate(ctx context.Context, it *item) {
	first := it.twin
	*it.result = *first.result
	// Both messages have the same error, and both are delivered again.
	if it.result.Err != nil {
		return
	}
	// The same ID with other content is not a duplicate, but a mistake of the sender.
	if !sameBody(it.hash, first.hash) || !sameBody(it.envelope, first.envelope) {
		it.refuse(classMismatch, errSameID)
		in.finish(ctx, it)
		return
	}
	// The handler has run for the first message only.
	if it.outcome = it.result.Outcome; it.outcome == Applied || it.outcome == Skipped {
		it.outcome = Duplicate
	}
	in.finish(ctx, it)
}

// maxPasses limits how many passes one call makes. A further pass is needed if other processes have handled
// some of the messages meanwhile, or if the answer to a COMMIT was lost.
const maxPasses = 10

// handle applies items and sets their results.
func (in *Inbox[TX]) handle(ctx context.Context, items []*item, fn Handler[TX]) {
	separately := false
	for passes := 1; len(items) > 0; passes++ {
		// A message that replaces its letter has no row that could be removed if only this message fails.
		if len(items) > 1 && slices.ContainsFunc(items, func(it *item) bool { return !it.ordered && it.replaces != "" }) {
			in.handleAlone(ctx, items, fn)
			return
		}
		err := in.pass(ctx, items, separately, fn)
		hung := timedOut(items)
		switch {
		case err == nil:
			in.begun(items...)
			in.finishAll(ctx, items, fn)
			return
		case hung != nil:
			in.hung(ctx, items, hung, fn)
			return
		case errors.Is(err, errKnown) && passes < maxPasses:
			// Some IDs are stored already, perhaps by another process since the pass began. The other items run again
			// without them. The pass was rolled back, so its outcomes do not count.
			for _, it := range items {
				it.forget()
			}
			if _, e := in.findAll(ctx, items); e != nil {
				in.fail(items, e)
				return
			}
			var rest []*item
			for _, it := range items {
				if it.outcome != "" {
					in.finish(ctx, it)
				} else {
					rest = append(rest, it)
				}
			}
			items = rest
		case store.KindOf(err) == store.KindLost && ctx.Err() == nil && passes < maxPasses: // the next pass finds out from the rows whether the COMMIT has applied
		case len(items) > 1 && in.isBusy(ctx, items, err): // a message that waits too long for a lock must not block the other messages
			in.handleAlone(ctx, items, fn)
			return
		// The messages are not the cause, so no attempt is counted.
		case !in.blames(ctx, err):
			in.fail(items, err)
			return
		case len(items) == 1:
			in.failed(ctx, items[0], cause(items[0].err, err))
			return
		case separately: // the error came perhaps at the COMMIT, which does not show the message that is the cause
			in.handleAlone(ctx, items, fn)
			return
		default:
			// One message has failed. With a savepoint for each message, the other messages can be applied.
			separately = true
		}
	}
}

// hung finishes items after the handler of one item has timed out. The items before it are applied again,
// because the timeout has rolled back the transaction. The items after it are not tried, because each may take as long.
func (in *Inbox[TX]) hung(ctx context.Context, items []*item, hung *item, fn Handler[TX]) {
	failure := hung.err
	var before []*item
	reached := false
	for _, it := range inTurn(items) {
		switch {
		case it == hung:
			reached = true
		case !reached:
			before = append(before, it)
		case it.m.Key != "" && it.stream() == hung.stream():
			it.result.Err = retry.After(errBehind, in.firstPause())
		default:
			it.result.Err = errUntried
		}
	}
	in.handle(ctx, before, fn)
	in.failed(ctx, hung, failure)
}

// handleAlone applies each of items in a transaction of its own.
func (in *Inbox[TX]) handleAlone(ctx context.Context, items []*item, fn Handler[TX]) {
	failed := map[stream]bool{}
	var hung *item
	for _, it := range inTurn(items) {
		s := it.stream()
		// Each further message may take as long, and the caller must answer the broker in time.
		if hung != nil {
			it.result.Err = errUntried
			continue
		}
		if it.m.Key != "" && failed[s] {
			it.result.Err = retry.After(errBehind, in.firstPause())
			continue
		}
		in.handle(ctx, []*item{it}, fn)
		failed[s], hung = it.result.Err != nil, timedOut([]*item{it})
	}
}

// fail asks for another delivery of items, with an error that does not count as an attempt: the messages are not
// the cause of the error.
func (in *Inbox[TX]) fail(items []*item, err error) {
	for _, it := range items {
		it.result.Err = err
	}
}

// finishAll finishes items after a committed pass. Then it applies the parked messages whose turn has come.
func (in *Inbox[TX]) finishAll(ctx context.Context, items []*item, fn Handler[TX]) {
	moved := map[stream]bool{}
	var streams []stream
	var failed []*item
	for _, it := range items {
		if it.failed() {
			failed = append(failed, it)
			continue
		}
		in.finish(ctx, it)
		if s := it.stream(); it.drains && !moved[s] {
			moved[s] = true
			streams = append(streams, s)
		}
	}
	if len(failed) > 0 {
		in.failedAll(ctx, failed)
	}
	in.tellSameBodies(ctx, items...)
	for _, s := range streams {
		if _, err := in.drain(ctx, s, fn); err != nil && ctx.Err() == nil {
			in.tell(ctx, Event{Type: EventDatabase, Err: err}) // the messages are committed; Run applies the remaining parked messages later
		}
	}
}

// finish sets the result of a message after the last pass of the message.
func (in *Inbox[TX]) finish(ctx context.Context, it *item) {
	switch {
	case it.failed():
		in.failed(ctx, it, it.err)
	case it.err != nil: // the handler was not called, because an earlier message of the key has failed
		it.result.Err = retry.After(it.err, in.firstPause())
	case it.refusal != nil:
		in.refuse(ctx, it, it.class, it.refusal)
	default:
		*it.result = Result{Outcome: it.outcome}
		in.tellOutcome(ctx, it)
	}
}

// tellOutcome tells the observer the outcome of a message that did not fail.
func (in *Inbox[TX]) tellOutcome(ctx context.Context, it *item) {
	e := Event{Message: it.m, From: it.from, To: StateApplied}
	if it.replaces != "" {
		e.From = StateDeadLettered
	}
	switch it.outcome {
	case Applied:
		e.Type = EventApplied
	case Duplicate:
		e.Type, e.From = EventDuplicate, StateApplied
	case Stale:
		e.Type, e.From = EventStale, StateApplied
	case Skipped:
		e.Type = EventSkipped
	case Parked:
		e.Type, e.To = EventParked, StateParked
	case DeadLettered: // an earlier delivery has reported the dead letter already
		e.Type, e.From, e.To = EventDuplicate, StateDeadLettered, StateDeadLettered
	}
	if it.reused {
		e.Type, e.Err = EventReusedSeq, errReusedSeq(it.m.Seq)
	}
	in.tell(ctx, e)
}
