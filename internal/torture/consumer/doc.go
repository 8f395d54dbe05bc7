// Package consumer proves the consumers of brokers: what they feed to an inbox is applied once and in order, also when
// consumers, the broker and connections die. Kafka is package kfake; no broker of Kafka itself is tested.
package consumer
