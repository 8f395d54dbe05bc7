module github.com/oncelib/once/broker/amqpbroker

go 1.25.0

require (
	github.com/oncelib/once v0.0.0
	github.com/rabbitmq/amqp091-go v1.16.0
)

replace github.com/oncelib/once => ../..
