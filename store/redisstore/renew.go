package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/oncelib/once/store"
)

// Renew implements [store.Renewer]. It sends one pipeline.
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
		calls[i] = call{[]string{s.recordKey(name)}, []any{strconv.FormatInt(h.Fence, 10), string(h.Nonce), micros(lease)}}
	}
	answers, confirmed, err := s.send(ctx, renewScript, false, calls)
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
