// Command once shows what package once does, and looks after what it stores.
//
// It is small, so that it is built in a minute from few modules: its relays deliver to services over HTTP and to Redis. The build in cmd/once/full/once has NATS, Kafka,
// RabbitMQ, OpenTelemetry and "once demo events" too.
package main

import "github.com/oncelib/once/cmd/once/internal/command"

func main() { command.Main() }
