// Command once shows what package once does, and looks after what it stores.
//
// It is small, so that it is built in a minute: it delivers to NATS, to Redis and to webhooks. The build in cmd/once/full/once has Kafka, OpenTelemetry and
// the NATS server of "once demo events" too.
package main

import "github.com/oncelib/once/cmd/once/internal/command"

func main() { command.Main() }
