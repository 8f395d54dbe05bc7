package redisbroker

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// oldest is the first version of Redis that reports messages which were trimmed before they were acknowledged.
const oldest = 7

// Check reads the settings of the client, of the server and of the streams for topics. Check returns one sentence for each setting that endangers
// a promise of an outbox, and an error if it fails to read the settings. Check uses the command INFO, and also the command CONFIG if the server
// allows CONFIG.
func Check(ctx context.Context, rdb *redis.Client, topics ...string) ([]string, error) {
	var findings []string
	if rdb.Options().MaxRetries > 0 {
		findings = append(findings, "The Redis client sends a message again by itself when an answer is lost, so that the stream may contain it twice. Try: redis.Options{MaxRetries: -1}, because the relay tries again itself")
	}
	sections, err := rdb.InfoMap(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("redisbroker: read the settings of the server: %w", err)
	}
	info := map[string]string{}
	for _, section := range sections {
		maps.Copy(info, section)
	}
	findings = append(findings, checkServer(info)...)
	// Managed services refuse CONFIG. A setting that cannot be read is not reported.
	if sync := rdb.ConfigGet(ctx, "appendfsync").Val()["appendfsync"]; info["aof_enabled"] == "1" && sync != "" && sync != "always" {
		findings = append(findings, fmt.Sprintf("The server confirms a message before it is on the disk (appendfsync %s): a power failure loses the messages of the last second or two. Try: appendfsync always", sync))
	}
	for _, topic := range topics {
		kind, err := rdb.Type(ctx, topic).Result()
		if err != nil {
			return nil, fmt.Errorf("redisbroker: read the state of stream %s: %w", topic, err)
		}
		if kind != "stream" && kind != "none" { // a missing stream is created by its first message
			findings = append(findings, fmt.Sprintf("The Redis key %s is a %s, not a stream, so the messages of this topic wait in the outbox. Try: another name for the topic, or delete the key", topic, kind))
			continue
		}
		left, err := rdb.PTTL(ctx, topic).Result()
		if err != nil {
			return nil, fmt.Errorf("redisbroker: read the state of stream %s: %w", topic, err)
		}
		if left > 0 {
			findings = append(findings, fmt.Sprintf("Redis deletes stream %s with all its messages in %v, because the key has an expiry. Try: PERSIST %[1]s", topic, left))
		}
	}
	return findings, nil
}

func checkServer(info map[string]string) (findings []string) {
	add := func(is bool, finding string, args ...any) {
		if is {
			findings = append(findings, fmt.Sprintf(finding, args...))
		}
	}
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	add(version < oldest, "The version of the server, %q, is too old. Try: Redis %d or newer, or Valkey", info["redis_version"], oldest)
	add(info["role"] != "master", "The server is a replica and takes no writes, so messages wait in the outbox. Try: the address of the primary")
	add(info["role"] == "master" && replicas == 0, "The server has no replica: the loss of its disk loses its messages. Try: a replica, and PublisherConfig{Replicas: 1}")
	add(info["maxmemory_policy"] != "noeviction", "The server may delete keys when its memory is full (maxmemory-policy %s), and a stream with all its messages is one key. Try: maxmemory-policy noeviction, and another server for your caches", info["maxmemory_policy"])
	add(info["aof_enabled"] != "1", "The server writes no append-only file: a restart loses messages. Try: appendonly yes")
	return findings
}

// CheckConsumer finds out whether messages of a stream were deleted before the consumer group had read them. CheckConsumer returns one sentence for
// each problem that it finds, and an error if the group does not exist or CheckConsumer fails to read the group. A group that [Consume] creates
// gets all messages that are in the stream when the group is created.
func CheckConsumer(ctx context.Context, rdb *redis.Client, stream, group string) ([]string, error) {
	groups, err := rdb.XInfoGroups(ctx, stream).Result()
	if err != nil {
		return nil, fmt.Errorf("redisbroker: read the consumer groups of stream %s: %w", stream, err)
	}
	for _, g := range groups {
		if g.Name != group {
			continue
		}
		s, err := rdb.XInfoStream(ctx, stream).Result()
		if err != nil {
			return nil, fmt.Errorf("redisbroker: read the state of stream %s: %w", stream, err)
		}
		return checkGroup(stream, s, g), nil
	}
	return nil, fmt.Errorf("redisbroker: stream %s has no consumer group %s. Try: start the consumer, which creates the group", stream, group)
}

// checkGroup reports messages that were trimmed before the group has read them. The server counts the added messages, and the
// messages that the group has read. The difference between both must still be in the stream.
func checkGroup(name string, s *redis.XInfoStream, g redis.XInfoGroup) (findings []string) {
	var unread int64
	switch {
	case g.EntriesRead <= 0: // the server does not know the number
		return nil
	// The group has read the newest message, so no message is unread.
	case g.LastDeliveredID == s.LastGeneratedID:
	case s.Length > 0 && isBefore(g.LastDeliveredID, s.FirstEntry.ID):
		unread = s.Length
	// The position of the group is inside the stream, and the server cannot say how many messages follow it.
	default:
		return nil
	}
	if missed := s.EntriesAdded - g.EntriesRead - unread; missed > 0 {
		findings = append(findings, fmt.Sprintf("Consumer group %s of stream %s has missed %d messages, which were deleted or trimmed before the group read them. Try: no MaxLen, or a larger one; ConsumerConfig.Keep deletes only acknowledged messages", g.Name, name, missed))
	}
	return findings
}

// isBefore reports whether the entry a is older than the entry b.
func isBefore(a, b string) bool {
	aTime, aNumber, _ := strings.Cut(a, "-")
	bTime, bNumber, _ := strings.Cut(b, "-")
	if aTime == bTime {
		aTime, bTime = aNumber, bNumber
	}
	// A number with fewer digits is smaller, and the parts have no leading zeros.
	return len(aTime) < len(bTime) || len(aTime) == len(bTime) && aTime < bTime
}
