package main

import (
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// TestDoctorRedis: a server without SQL is asked whether it can work, and what it may lose.
func TestDoctorRedis(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "redis-server")
	server := func(lines string) string {
		s, err := testenv.StartRedis(t.Context(), testenv.RedisConfig{Lines: lines})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return "redis://" + s.Addr()
	}
	for _, c := range []struct {
		name, db string
		level    level
		says     string
	}{
		{"as it should be", server("appendonly yes"), okay, "works with this server"},
		{"no file", server(""), fail, "append-only file"},
	} {
		found := examined(t, c.db)
		found["store"].want(t, c.name, c.level, c.says)
		found["volatile"].want(t, c.name, warn, "may be forgotten")
	}
	if o := run(t, "doctor", "--db", "redis://127.0.0.1:1").want(t, 4); !strings.Contains(o.stderr, "refused") || !strings.Contains(o.stderr, "Try: ") {
		t.Error(o.stderr)
	}
	if o := run(t, "doctor", "--db", "redis://ada:s3cret@host:port/x").want(t, 2); strings.Contains(o.stderr, "s3cret") || !strings.Contains(o.stderr, "Try: ") {
		t.Error(o.stderr)
	}
}
