// Command once shows how the library works, and manages the data that the library stores. This build has all commands. The build in cmd/once is
// smaller, and compiles in a minute.
package main

import (
	"github.com/oncelib/once/cmd/once/full/internal/kafka"
	"github.com/oncelib/once/cmd/once/full/internal/nats"
	"github.com/oncelib/once/cmd/once/full/internal/natsdemo"
	"github.com/oncelib/once/cmd/once/full/internal/otlp"
	"github.com/oncelib/once/cmd/once/full/internal/rabbitmq"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/command"
	"github.com/oncelib/once/cmd/once/internal/demo"
	"github.com/oncelib/once/cmd/once/internal/destination"
	"github.com/oncelib/once/cmd/once/internal/telemetry"
)

func main() {
	extend()
	command.Main(own...)
}

// own are the commands that the small build does not have.
var own = []cli.Entry{natsdemo.Server, natsdemo.Receiver}

// extend registers what the small build does not have.
func extend() {
	destination.Register("nats", nats.Open)
	destination.Register("tls", nats.Open)
	destination.Register("kafka", kafka.Open)
	destination.Register("amqp", rabbitmq.Open)
	destination.Register("amqps", rabbitmq.Open)
	telemetry.Register(otlp.Start)
	demo.RegisterStreams(natsdemo.Connect)
}
