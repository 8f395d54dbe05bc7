// The tests with servers are in integration/broker and integration/consumer: "make test-of DIR=broker/natsbroker" runs them after these.

package natsbroker_test
