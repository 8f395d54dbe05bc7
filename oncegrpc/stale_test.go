package oncegrpc_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncegrpc"
)

// oldKey was made on 1 January 2020.
const oldKey = "016f5e66-e800-7000-8000-000000000000"

func since(ctx context.Context, sent ...string) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	return metadata.NewOutgoingContext(ctx, metadata.Join(md, metadata.MD{"once-first-sent": sent}))
}

// A retry whose first attempt may have been forgotten is not executed; what is still known
// is replayed. Its client is told once, and not again.
func TestStaleRetry(t *testing.T) {
	s := start(t, oncegrpc.Config{}, nil)
	c := s.retrying(oncegrpc.ClientConfig{})
	long := "2020-01-01T00:00:00Z"
	_, err := c.CreateRefund(since(with("k"), long), refund)
	if once.CodeOf(err) != once.CodeStale || status.Code(err) != codes.FailedPrecondition || infoOf(err).GetReason() != "STALE" || len(s.keys()) != 1 {
		t.Errorf("%v after %d calls", err, len(s.keys()))
	}
	s.expect(0, 0)
	for _, sent := range []string{strconv.FormatInt(time.Now().UnixMilli(), 10), long} {
		if _, err := c.CreateRefund(since(with("k"), sent), refund); err != nil {
			t.Errorf("%s: %v", sent, err)
		}
	}
	if _, err := c.CreateRefund(with(oldKey), refund); err != nil {
		t.Errorf("an opaque key: %v", err)
	}
	s.expect(2, 2)
}

func TestKeyTime(t *testing.T) {
	s := start(t, oncegrpc.Config{KeyTime: true}, nil)
	c := s.client()
	if _, err := c.CreateRefund(with(oldKey), refund); infoOf(err).GetReason() != "STALE" {
		t.Error(err)
	}
	s.expect(0, 0)
	for _, ctx := range []context.Context{since(with(oldKey), time.Now().Format(time.RFC3339)), with(once.NewKey()), with("refund:42")} {
		if _, err := c.CreateRefund(ctx, refund); err != nil {
			t.Error(err)
		}
	}
	s.expect(3, 3)
}

// What cannot be understood is not ignored.
func TestFirstSentInvalid(t *testing.T) {
	s := start(t, oncegrpc.Config{}, nil)
	c := s.client()
	now := time.Now().Format(time.RFC3339)
	for _, sent := range [][]string{{""}, {"x"}, {"1767225600"}, {now, now}, {time.Now().Add(time.Hour).Format(time.RFC3339)}} {
		_, err := c.CreateRefund(since(with("k"), sent...), refund)
		info := infoOf(err)
		if status.Code(err) != codes.InvalidArgument || info.GetReason() != "FIRST_SENT_INVALID" || info.GetMetadata()["safe_new_key"] != "false" || info.GetMetadata()["retryable"] != "false" {
			t.Errorf("%q: %v", sent, err)
		}
	}
	s.expect(0, 0)
}

// Every attempt says since when.
func TestEveryAttemptSaysFirstSent(t *testing.T) {
	s := start(t, oncegrpc.Config{}, func(s *service) {
		s.around = func(_ context.Context, call int, handle func() (any, error)) (any, error) {
			if call < 3 {
				return nil, status.Error(codes.Unavailable, "away")
			}
			return handle()
		}
	})
	now := time.Now().Format(time.RFC3339)
	_, err := s.retrying(oncegrpc.ClientConfig{}).CreateRefund(since(with("k"), now), refund, grpc.WaitForReady(true))
	s.must(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, md := range s.seen {
		if got := md.Get("once-first-sent"); len(got) != 1 || got[0] != now {
			t.Errorf("attempt %d of %d: %q", n+1, len(s.seen), got)
		}
	}
}

// Principals may be as long as over HTTP, and do not meet where they begin alike.
func TestLongPrincipal(t *testing.T) {
	var principal string
	s := start(t, oncegrpc.Config{Principal: func(context.Context) string { return principal }}, nil)
	c := s.client()
	all := []string{strings.Repeat("a", 500), strings.Repeat("a", 499) + "b", strings.Repeat("ü", 250)}
	for range 2 {
		for i, p := range all {
			principal = p
			if r, err := c.CreateRefund(with("k"), refund); err != nil || r.GetId() != int64(i+1) {
				t.Errorf("%.3s: %v, %v", p, r, err)
			}
		}
	}
	s.expect(len(all), len(all))
}
