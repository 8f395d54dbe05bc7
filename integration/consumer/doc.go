// Package consumer proves the consumers of brokers: what they feed to an inbox is applied once and in order, also when
// consumers, the broker and connections die. NATS, Redis and Valkey are servers; Kafka is package kfake, and no broker of Kafka itself is tested.
package consumer
