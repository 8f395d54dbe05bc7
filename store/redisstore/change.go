package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncelib/once/store"
)

var (
	errTables = errors.New("redisstore: the Redis store cannot write other data or other operations together with a record. Try: an SQL database or DynamoDB")
	errKeep   = errors.New("redisstore: store.Change.KeepRequest is set, but Expect.Fence is 0, so there is no stored record whose request could be kept. Try: set Expect.Fence to the fence of the stored record")
	errLate   = errors.New("the operation has no record, and its first attempt is older than the retention, so the record may have expired. Try: find out whether the operation has taken effect, before you use a new key")
)

// Read implements [store.Operations].
func (s *Store) Read(ctx context.Context, id store.ID) (rec store.Record, err error) {
	name, err := member(id)
	if err != nil {
		return rec, err
	}
	c := call{[]string{s.cfg.Prefix + recordKey + name, s.cfg.Prefix + syncKey}, []any{flag(s.cfg.Replicas > 0)}}
	answer, confirmed, err := s.run(ctx, readScript, false, c)
	if err != nil {
		return rec, err
	}
	f := pairsOf(answer[1])
	if len(f) > 0 && !confirmed { // a failover may take the record back, so the caller must not receive it
		return rec, &store.Error{Kind: store.KindUnavailable, Err: errBehind}
	}
	return recordOf(f, answer[0])
}

// flag returns a bool as an argument of a script.
func flag(is bool) string {
	if is {
		return "1"
	}
	return ""
}

// micros returns a duration as an argument of a script, and "" if it does not end.
func micros(d time.Duration) string {
	if d == store.Forever {
		return ""
	}
	return number(d.Microseconds())
}

// Swap implements [store.Operations].
func (s *Store) Swap(ctx context.Context, c store.Change) (rec store.Record, err error) {
	switch {
	case len(c.Writes) > 0 || len(c.Held) > 0:
		return rec, &store.Error{Kind: store.KindMisused, Err: errTables}
	case c.KeepRequest && c.Expect.Fence == 0:
		return rec, &store.Error{Kind: store.KindMisused, Err: errKeep}
	// Nothing to write: a change without an operation has only Writes, and Redis keeps no tables.
	case c.ID.IsZero():
		return c.Next, nil
	}
	name, err := member(c.ID)
	if err != nil {
		return rec, err
	}
	script := changeScript
	// A claim needs memory for a new record, so it uses the script that a full server refuses.
	if c.Expect.Fence == 0 {
		script = claimScript
		if err := s.checkOnce(ctx); err != nil {
			return rec, err
		}
	}
	args := []any{
		strconv.FormatInt(c.Expect.Fence, 10), string(c.Expect.Nonce), flag(c.Expect.LeaseExpired), number(max(0, c.StaleAfter.UnixMicro())), micros(c.Lease), micros(c.Retain),
		flag(c.KeepRequest), flag(s.cfg.Replicas > 0), name, strconv.Itoa(int(c.Next.State)),
	}
	answer, confirmed, err := s.run(ctx, script, true, call{[]string{s.cfg.Prefix + recordKey + name, s.cfg.Prefix + syncKey, s.cfg.Prefix + unfinishedKey}, append(args, fieldsOf(&c)...)})
	switch {
	case err != nil:
		return rec, err
	case answer[0] == "stale":
		return rec, &store.Error{Kind: store.KindStale, Err: errLate}
	// A failover may still take the record back.
	case answer[0] == "applied" && !confirmed:
		return rec, &store.Error{Kind: store.KindLost, Err: errBehind}
	case answer[0] == "applied":
		return c.Next, nil
	case !confirmed: // the record that blocks this change proves nothing: it may be the caller's own, which a failover may take back
		return rec, &store.Error{Kind: store.KindUnavailable, Err: errBehind}
	}
	if rec, err = recordOf(pairsOf(answer[2]), answer[1]); err == nil {
		err = &store.Error{Kind: store.KindTaken, Err: fmt.Errorf("another caller has changed the operation: its state is %s and its fence is %d now", rec.State, rec.Fence)}
	}
	return rec, err
}

// Renew implements [store.Renewer]. Renew sends all renewals in one pipeline.
func (s *Store) Renew(ctx context.Context, holds []store.Hold, lease time.Duration) (renewed []store.Hold, err error) {
	if len(holds) == 0 {
		return nil, nil
	}
	calls := make([]call, len(holds))
	for i, h := range holds {
		name, err := member(h.ID)
		if err != nil {
			return nil, err
		}
		calls[i] = call{[]string{s.cfg.Prefix + recordKey + name}, []any{strconv.FormatInt(h.Fence, 10), string(h.Nonce), micros(lease)}}
	}
	answers, confirmed, err := s.send(ctx, renewScript, false, calls)
	// An owner that continued would rely on a lease that a failover may shorten.
	if err == nil && !confirmed {
		err = &store.Error{Kind: store.KindUnavailable, Err: errBehind}
	}
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		if n, err := a.Int(); err == nil && n == 1 {
			renewed = append(renewed, holds[i])
		}
	}
	return renewed, nil
}
