package rabbitmq

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestOpenHidesPasswords: URLs that can be read, whose passwords are not told, and those that cannot.
func TestOpenHidesPasswords(t *testing.T) {
	for to, name := range map[string]string{
		"amqp://host": "amqp://host",
		"amqp://user:secret@host:5672/shop?exchange=e": "amqp://user:xxxxx@host:5672/shop?exchange=e",
		"amqps://host/": "amqps://host/",
	} {
		d, err := Open(to)
		if err != nil {
			t.Errorf("%s: %v", to, err)
			continue
		}
		if d.Name != name {
			t.Errorf("%s is told as %s", to, d.Name)
		}
		d.Close()
	}
	for _, to := range []string{"amqp://", "amqp://user:secret@host:port"} {
		if _, err := Open(to); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestDoctorAndRelayOnRabbitMQ: the doctor finds the topic that has no queue, and a relay delivers to the one that has.
func TestDoctorAndRelayOnRabbitMQ(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "rabbitmq")
	server, err := testenv.StartRabbitMQ(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	conn, err := amqpbroker.Dial(server.URL(), amqp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := amqpbroker.Declare(t.Context(), conn, amqpbroker.Queue{Name: "refunds", Exchange: "events"}); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{"": "Queue payouts does not exist", "?exchange=events": "", "?exchange=nowhere": "Exchange nowhere does not exist"} {
		d, err := Open(server.URL() + to)
		if err != nil {
			t.Fatal(err)
		}
		findings, err := d.Check(t.Context(), []string{"refunds", "payouts"})
		if all := strings.Join(findings, "\n"); err != nil || len(findings) > 1 || !strings.Contains(all, want) || want == "" && all != "" {
			t.Errorf("%s: %q, %v", to, findings, err)
		}
		for topic, taken := range map[string]bool{"refunds": to != "?exchange=nowhere", "payouts": false} {
			errs := d.Publish(t.Context(), []message.Message{{ID: "1", Topic: topic, Type: "test", Source: "test"}})
			if (errs == nil) != taken {
				t.Errorf("%s, %s: %v", to, topic, errs)
			}
		}
		d.Close()
	}
	if n, err := server.Messages(t.Context(), "refunds"); err != nil || n != 2 {
		t.Errorf("the queue has %d messages: %v", n, err)
	}
}
