// Package broker tests the publishers of an outbox against brokers: a nats-server in this process and
// one that is killed, redis-server and valkey-server, which are killed as well, and Kafka's protocol as package kfake speaks it. Kafka itself is not tested.
package broker

import (
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
