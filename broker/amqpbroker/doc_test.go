// The tests with servers are in integration/broker and integration/consumer: "make test-of DIR=broker/amqpbroker" runs them after these.

package amqpbroker_test
