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
	errTables = errors.New("redisstore: Redis keeps no tables, and a change reaches one operation. Try: a database for what commits together")
	errKeep   = errors.New("redisstore: a change that keeps a part of a record must expect a fence")
	errLate   = errors.New("no record exists, and the first attempt is older than the retention. Try: look whether it took effect, before you use a new key")
)

// Read implements [store.Operations].
func (s *Store) Read(ctx context.Context, id store.ID) (rec store.Record, err error) {
	name, err := member(id)
	if err != nil {
		return rec, err
	}
	c := call{[]string{s.recordKey(name), s.syncKey()}, []any{flag(s.cfg.Replicas > 0)}}
	answer, confirmed, err := s.run(ctx, readScript, false, c)
	if err != nil {
		return rec, err
	}
	f := pairsOf(answer[1])
	if len(f) > 0 && !confirmed { // a caller would be told what a failover may take back
		return rec, &store.Error{Kind: store.KindUnavailable, Err: errBehind}
	}
	return recordOf(f, answer[0])
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return ""
}

// micros is a duration for a script; "" if it does not end.
func micros(d time.Duration) string {
	if d <= 0 || d == store.Forever {
		return ""
	}
	return strconv.FormatInt(d.Microseconds(), 10)
}

// Swap implements [store.Operations].
func (s *Store) Swap(ctx context.Context, c store.Change) (rec store.Record, err error) {
	switch {
	case len(c.Writes) > 0 || len(c.Held) > 0:
		return rec, &store.Error{Kind: store.KindMisused, Err: errTables}
	case c.KeepRequest && c.Expect.Fence == 0:
		return rec, &store.Error{Kind: store.KindMisused, Err: errKeep}
	case c.ID.IsZero():
		return c.Next, nil
	}
	name, err := member(c.ID)
	if err != nil {
		return rec, err
	}
	script, stale := changeScript, ""
	if c.Expect.Fence == 0 {
		script = claimScript
		if !c.StaleAfter.IsZero() {
			stale = strconv.FormatInt(c.StaleAfter.UnixMicro(), 10)
		}
	}
	args := []any{
		strconv.FormatInt(c.Expect.Fence, 10), string(c.Expect.Nonce), flag(c.Expect.LeaseExpired), stale, micros(c.Lease), micros(c.Retain),
		flag(c.KeepRequest), flag(s.cfg.Replicas > 0), name, strconv.Itoa(int(c.Next.State)),
	}
	answer, confirmed, err := s.run(ctx, script, true, call{[]string{s.recordKey(name), s.syncKey(), s.unfinishedKey()}, append(args, fieldsOf(&c)...)})
	switch {
	case err != nil:
		return rec, err
	case answer[0] == "stale":
		return rec, &store.Error{Kind: store.KindStale, Err: errLate}
	case answer[0] == "applied" && !confirmed:
		return rec, &store.Error{Kind: store.KindLost, Err: errBehind}
	case answer[0] == "applied":
		return c.Next, nil
	case !confirmed: // what is in the way proves nothing: it may be the caller's own, which a failover may take back
		return rec, &store.Error{Kind: store.KindUnavailable, Err: errBehind}
	}
	if rec, err = recordOf(pairsOf(answer[2]), answer[1]); err == nil {
		err = &store.Error{Kind: store.KindTaken, Err: fmt.Errorf("the operation is %s, fence %d", rec.State, rec.Fence)}
	}
	return rec, err
}
