package testenv

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestRedisIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	Need(t, "redis-server")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := StartRedis(ctx, RedisConfig{Lines: "appendonly yes"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	addr := r.Addr()
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.greets(ctx); err == nil {
		t.Error("a killed server answers")
	}
	if err := r.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if r.Addr() != addr {
		t.Errorf("%s after the restart, %s before", r.Addr(), addr)
	}
	if err := r.Freeze(); err != nil {
		t.Error(err)
	}
	if err := r.Thaw(); err != nil {
		t.Error(err)
	}
	if err := r.greets(ctx); err != nil {
		t.Error("a server that goes on:", err)
	}
	home := r.dir.path
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home, err)
	}
}
