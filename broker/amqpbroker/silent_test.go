package amqpbroker

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Methods of AMQP: the class and the number.
const (
	connectionStart, connectionStartOk = 10<<16 | 10, 10<<16 | 11
	connectionTune                     = 10<<16 | 30
	connectionOpen, connectionOpenOk   = 10<<16 | 40, 10<<16 | 41
	channelOpen, channelOpenOk         = 20<<16 | 10, 20<<16 | 11
	basicQos, basicQosOk               = 60<<16 | 10, 60<<16 | 11
	basicConsume, basicConsumeOk       = 60<<16 | 20, 60<<16 | 21
)

// serveUntilConsumed is a RabbitMQ server that answers until a consumer has begun. It answers no other method, such as the end of a consumer or the
// declaration of an exchange.
func serveUntilConsumed(conn net.Conn, consumed chan<- struct{}) {
	defer conn.Close()
	send := func(channel uint16, method uint32, arguments string) {
		frame := binary.BigEndian.AppendUint16([]byte{1}, channel)
		frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(arguments)))
		frame = binary.BigEndian.AppendUint32(frame, method)
		_, _ = conn.Write(append(append(frame, arguments...), 0xCE))
	}
	if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil { // AMQP0091
		return
	}
	send(0, connectionStart, "\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US")
	for {
		header := make([]byte, 7)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header[3:])+1)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		if header[0] != 1 { // a heartbeat
			continue
		}
		channel := binary.BigEndian.Uint16(header[1:])
		switch binary.BigEndian.Uint32(body) {
		case connectionStartOk:
			send(0, connectionTune, "\x00\x00\x00\x00\x00\x00\x00\x00")
		case connectionOpen:
			send(0, connectionOpenOk, "\x00")
		case channelOpen:
			send(channel, channelOpenOk, "\x00\x00\x00\x00")
		case basicQos:
			send(channel, basicQosOk, "")
		case basicConsume:
			send(channel, basicConsumeOk, "\x04once")
			close(consumed)
		}
	}
}

// dialSilent returns a Conn to such a server. The heartbeats do not end the silence.
func dialSilent(t *testing.T, consumed chan<- struct{}) *Conn {
	t.Helper()
	conn, err := Dial("amqp://127.0.0.1", amqp.Config{Heartbeat: 24 * time.Hour, Dial: func(string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serveUntilConsumed(server, consumed)
		return client, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestConsumeEndsWhileTheServerIsSilent: the server answers neither the end of the consumer nor of its channel and its connection. Consume returns all
// the same.
func TestConsumeEndsWhileTheServerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consumed := make(chan struct{})
		c, err := newConsumer(dialSilent(t, consumed), busySink{}, ConsumerConfig{Queue: "refunds", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx) }()
		<-consumed
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < callTimeout || took > time.Minute {
			t.Errorf("Consume has returned %v after the end of its context", took)
		}
	})
}

// TestCheckExchangeOfASilentServer: a server that does not answer the question for an exchange costs a check its time limit, and no more.
func TestCheckExchangeOfASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialSilent(t, nil)
		began := time.Now()
		if _, err := CheckExchange(t.Context(), conn, "events"); !errors.Is(err, errSilent) {
			t.Errorf("the check says %v", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the check took %v", took)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}
