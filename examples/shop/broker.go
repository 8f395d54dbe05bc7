package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startBroker starts a NATS server within this process, so that the example needs none. In production it is one of its own, with replicas.
func startBroker(dir, address string) (*server.Server, error) {
	host, text, err := net.SplitHostPort(address)
	port, e := strconv.Atoi(text)
	if err := errors.Join(err, e); err != nil {
		return nil, err
	}
	s, err := server.NewServer(&server.Options{ServerName: "shop", Host: host, Port: port, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		return nil, fmt.Errorf("%w. Try: -dir with a writable folder", err)
	}
	s.Start()
	const patience = 20 * time.Second
	if !s.ReadyForConnections(patience) {
		s.Shutdown()
		return nil, fmt.Errorf("the NATS server does not start at %s. Try: -port with the first of five free ports", address)
	}
	return s, nil
}

// stream has the topics, which are its subjects.
const (
	stream         = "SHOP"
	ordersTopic    = "orders"
	shipmentsTopic = "shipments"
)

// connect connects to the broker, and makes the stream that the promise needs: in files, with a window in which it drops what a relay sends again.
func connect(ctx context.Context, address string) (jetstream.JetStream, error) {
	conn, err := nats.Connect("nats://"+address, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: stream, Subjects: []string{ordersTopic, shipmentsTopic}, Storage: jetstream.FileStorage, Duplicates: 10 * time.Minute,
		})
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("make the stream at nats://%s: %w", address, err)
	}
	return js, nil
}
