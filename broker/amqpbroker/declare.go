package amqpbroker

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Names and values of arguments of queues.
const (
	queueType     = "x-queue-type"
	quorum        = "quorum"
	classic       = "classic"
	overflow      = "x-overflow"
	rejectPublish = "reject-publish"
	deliveryLimit = "x-delivery-limit"
	deadLetters   = "x-dead-letter-exchange"
)

// Queue is a queue that keeps confirmed messages.
type Queue struct {
	Name     string
	Exchange string   // that routes the messages; "" means the default exchange, which has all queues by their names
	Topics   []string // bound routing keys, such as refunds.*; with Exchange only. Default: the name of the queue
	Classic  bool     // one copy, on one server
}

// Declare makes a durable queue, a quorum queue unless Classic is set, and binds it to a durable topic exchange if Exchange is set. Existing ones are
// not changed. It returns an error if a queue or an exchange with the name has other settings.
//
// Call it when a service is deployed, well before the first message: RabbitMQ confirms a declaration before it is on its disk. A crash of the server
// within about a second of the declaration loses the queue, or its confirmed messages.
func Declare(ctx context.Context, conn *Conn, q Queue) error {
	if q.Name == "" || q.Exchange == "" && len(q.Topics) > 0 {
		return errors.New("amqpbroker: Declare: Queue.Name is empty, or Queue.Topics is set without Queue.Exchange. Try: Queue{Name: \"refunds\"}")
	}
	ch, err := conn.channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return conn.bounded(ctx, func() error { return declare(ch, q) })
}

func declare(ch *amqp.Channel, q Queue) error {
	kind := quorum
	if q.Classic {
		kind = classic
	}
	if _, err := ch.QueueDeclare(q.Name, true, false, false, false, amqp.Table{queueType: kind}); err != nil {
		return fmt.Errorf("amqpbroker: declare the queue %s: %w. Try: amqpbroker.Check, which lists the settings of the queue that exists; or another name", q.Name, err)
	}
	if q.Exchange == "" {
		return nil
	}
	if err := ch.ExchangeDeclare(q.Exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return fmt.Errorf("amqpbroker: declare the exchange %s: %w. Try: another name, if an exchange with other settings has this name", q.Exchange, err)
	}
	topics := q.Topics
	if len(topics) == 0 {
		topics = []string{q.Name}
	}
	for _, topic := range topics {
		if err := ch.QueueBind(q.Name, topic, q.Exchange, false, nil); err != nil {
			return fmt.Errorf("amqpbroker: bind the queue %s to %s of exchange %s: %w", q.Name, topic, q.Exchange, err)
		}
	}
	return nil
}
