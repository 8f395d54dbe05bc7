package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// startStreams starts a Redis server that keeps its data and flushes it once a second.
func startStreams(t *testing.T) *testenv.Redis {
	t.Helper()
	testenv.Need(t, "redis-server")
	server, err := testenv.StartRedis(t.Context(), testenv.RedisConfig{Lines: "appendonly yes\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// TestRelayRedis: once relay delivers to a stream of Redis, and once doctor asks the server and the groups of inboxes.
func TestRelayRedis(t *testing.T) {
	t.Parallel()
	server := startStreams(t)
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	to := "redis://" + server.Addr()
	db := open(t, sqliteURL(t))
	for range 5 {
		db.add(t, outbox.Config{}, message.Message{Topic: "refunds", Key: "k", Type: "x"})
	}
	relay := program(t, "relay", "--db", db.url, "--to", to)
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	for rdb.XLen(t.Context(), "refunds").Val() < 5 {
		<-time.After(20 * time.Millisecond)
	}
	if err := relay.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := relay.Wait(); err != nil {
		t.Error(err)
	}

	db.add(t, outbox.Config{}, message.Message{Topic: "refunds", Key: "k", Type: "x"})
	inboxData(t, db) // its consumers are billing and mails
	found := examined(t, db.url, "--to", to)
	found["outbox_destination"].want(t, "everysec", warn, "appendfsync everysec")
	found["inbox_consumers"].want(t, "no group", okay, "has no consumer with the name of an inbox of this database: billing, mails")
	for _, group := range []string{"billing", "another"} {
		if err := rdb.XGroupCreate(t.Context(), "refunds", group, "0").Err(); err != nil {
			t.Fatal(err)
		}
		if err := rdb.XReadGroup(t.Context(), &goredis.XReadGroupArgs{Group: group, Consumer: "c", Streams: []string{"refunds", ">"}, Count: 1}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	examined(t, db.url, "--to", to)["inbox_consumers"].want(t, "a good group", okay, "1 consumer was checked")
	if err := rdb.XTrimMaxLen(t.Context(), "refunds", 1).Err(); err != nil {
		t.Fatal(err)
	}
	examined(t, db.url, "--to", to)["inbox_consumers"].want(t, "messages are gone", warn, "Consumer group billing of stream refunds has missed 3 messages")
	examined(t, db.url, "--to", "redis://127.0.0.1:1")["outbox_destination"].want(t, "no server", warn, "redis://127.0.0.1:1")
	if o := run(t, "relay", "--db", db.url, "--to", "redis://ada:s3cret@host:port/x").want(t, 2); strings.Contains(o.stderr, "s3cret") || !strings.Contains(o.stderr, "Try: ") {
		t.Error(o.stderr)
	}
}

// TestDoctorChecksTopicsBeforeTheFirstMessage: a deployment asks about topics that have had no message yet, and --strict ends with exit code 1 after a warning.
func TestDoctorChecksTopicsBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	server := startStreams(t)
	to, db := "redis://"+server.Addr(), sqliteURL(t)
	run(t, "migrate", "up", "--db", db).want(t, 0)
	examined(t, db, "--to", to)["outbox_destination"].want(t, "no topic", warn, "were not checked")
	examined(t, db, "--to", to, "--topic", "refunds")["outbox_destination"].want(t, "a topic", warn, "appendfsync everysec")
	run(t, "doctor", "--db", db, "--to", to, "--topic", "refunds").want(t, 0)
	run(t, "doctor", "--db", db, "--to", to, "--topic", "refunds", "--strict").want(t, 1)
}
