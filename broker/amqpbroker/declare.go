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

// Queue describes a queue for [Declare].
type Queue struct {
	Name     string   // the name of the queue
	Exchange string   // the exchange that routes messages to the queue; "" means the default exchange, which sends a message to the queue whose name is the routing key
	Topics   []string // the routing keys of the messages that the exchange sends to the queue, such as refunds.*; used only if Exchange is set. Default: the name of the queue
	Classic  bool     // if true, Declare makes a classic queue, which has one copy on one server, instead of a quorum queue
}

// Declare creates a durable queue. If q.Exchange is set, Declare also creates a durable topic exchange and binds the queue to this exchange. Declare
// does not change existing queues and exchanges. Declare returns an error if an existing queue or exchange has other settings than q.
//
// Call Declare when a service is deployed, well before the first message. RabbitMQ confirms a declaration before the declaration is on the disk. If
// the server crashes within about a second after the declaration, the server may lose the queue, or confirmed messages in the queue.
func Declare(ctx context.Context, conn *Conn, q Queue) error {
	if q.Name == "" || q.Exchange == "" && len(q.Topics) > 0 {
		return errors.New("amqpbroker: Declare: Queue.Name is empty, or Queue.Topics is set without Queue.Exchange. Try: Queue{Name: \"refunds\"}")
	}
	ch, err := conn.channel(ctx)
	if err != nil {
		return err
	}
	defer conn.finish(ctx, ch.Close)
	return conn.bounded(ctx, func() error { return declare(ch, q) })
}

func declare(ch *amqp.Channel, q Queue) error {
	kind := quorum
	if q.Classic {
		kind = classic
	}
	if _, err := ch.QueueDeclare(q.Name, true, false, false, false, amqp.Table{queueType: kind}); err != nil {
		return fmt.Errorf("amqpbroker: declare the queue %s: %w. Try: amqpbroker.Check, which lists the settings of the existing queue; or another name", q.Name, err)
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
