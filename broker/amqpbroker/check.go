package amqpbroker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Check reads the settings of queues. Check returns one sentence for each setting that endangers a promise of an outbox or of an inbox, and an error
// if it fails to read the settings. Check does not see the settings that a policy adds to a queue, and does not see limits of the server such as
// max_message_size.
func Check(ctx context.Context, conn *Conn, queues ...string) ([]string, error) {
	var findings []string
	for _, queue := range queues {
		settings, err := ask(ctx, conn, queue)
		if isGone(err) {
			findings = append(findings, fmt.Sprintf("Queue %s does not exist, so messages for it wait in the outbox. Try: declare the queue, with amqpbroker.Declare for example", queue))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("amqpbroker: read the settings of queue %s: %w", queue, err)
		}
		for _, finding := range checkQueue(settings) {
			findings = append(findings, fmt.Sprintf("Queue %s %s", queue, finding))
		}
	}
	return findings, nil
}

// CheckExchange returns one sentence for each setting of an exchange that endangers the messages which are sent to this exchange. CheckExchange
// does not check the bindings of queues, because AMQP has no command that lists bindings. If no queue takes a message, [Publisher] treats the
// message as not delivered.
func CheckExchange(ctx context.Context, conn *Conn, exchange string) ([]string, error) {
	if exchange == "" {
		return nil, nil
	}
	ch, err := conn.channel(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.finish(ctx, ch.Close)
	err = conn.bounded(ctx, func() error {
		return ch.ExchangeDeclarePassive(exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	})
	if isGone(err) {
		return []string{fmt.Sprintf("Exchange %s does not exist, so messages for it wait in the outbox. Try: declare the exchange, with amqpbroker.Declare for example", exchange)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("amqpbroker: look up exchange %s: %w", exchange, err)
	}
	// The type of the exchange does not matter, so the declaration is repeated with each type until the type fits.
	for _, kind := range []string{amqp.ExchangeTopic, amqp.ExchangeDirect, amqp.ExchangeFanout, amqp.ExchangeHeaders} {
		err = declareAgain(ctx, conn, exchange, kind)
		if name, _, differs := difference(err); !differs || name != "type" {
			break
		}
	}
	switch name, value, differs := difference(err); {
	case differs && name == "durable":
		return []string{fmt.Sprintf("Exchange %s is not durable: a restart of the server deletes the exchange and its bindings. Try: a durable exchange", exchange)}, nil
	case differs && name == "auto_delete":
		return []string{fmt.Sprintf("Exchange %s is deleted when its last queue is unbound (auto_delete=%s). Try: an exchange without auto-delete", exchange, value)}, nil
	case differs || err == nil:
		return nil, nil
	}
	return nil, fmt.Errorf("amqpbroker: read the settings of exchange %s: %w", exchange, err)
}

// declareAgain declares an existing exchange, so that the server names the first setting that differs.
func declareAgain(ctx context.Context, conn *Conn, exchange, kind string) error {
	// The server closes the channel after a refusal, so each declaration needs a new channel.
	ch, err := conn.channel(ctx)
	if err != nil {
		return err
	}
	defer conn.finish(ctx, ch.Close)
	return conn.bounded(ctx, func() error { return ch.ExchangeDeclare(exchange, kind, true, false, false, false, nil) })
}

// settings contains the settings in which a queue differs from a durable quorum queue without arguments, by name.
type settings struct {
	differs   map[string]string
	exclusive bool // the queue belongs to another connection
}

// ask finds the settings of an existing queue. AMQP cannot read settings. But the server refuses a declaration that differs,
// and names the first setting that differs, with its value. So ask repeats the declaration with this value until nothing
// differs.
func ask(ctx context.Context, conn *Conn, queue string) (settings, error) {
	found := settings{differs: map[string]string{}}
	durable, autoDelete, arguments := true, false, amqp.Table{queueType: quorum}
	// The limit prevents an endless loop if the answers of a server contradict each other.
	const most = 20
	for range most {
		err := declareQueue(ctx, conn, queue, durable, autoDelete, arguments)
		if err == nil {
			return found, nil
		}
		var refusal *amqp.Error
		// Only the connection that has declared an exclusive queue may declare it again.
		if errors.As(err, &refusal) && refusal.Code == amqp.ResourceLocked {
			found.exclusive = true
			return found, nil
		}
		name, value, differs := difference(err)
		// If the server names a setting again, the value from its answer was not accepted.
		if _, again := found.differs[name]; !differs || again {
			return found, err
		}
		found.differs[name] = value
		switch name {
		case "durable":
			durable = value == "true"
		case "auto_delete":
			autoDelete = value == "true"
		default:
			delete(arguments, name)
			if value != unset {
				arguments[name] = asArgument(value)
			}
		}
	}
	return found, errors.New("the queue has more settings than this check can read")
}

// declareQueue declares an existing queue. It does not create a queue that does not exist.
func declareQueue(ctx context.Context, conn *Conn, queue string, durable, autoDelete bool, arguments amqp.Table) error {
	ch, err := conn.channel(ctx)
	if err != nil {
		return err
	}
	defer conn.finish(ctx, ch.Close)
	return conn.bounded(ctx, func() error {
		// The passive declaration fails if the queue does not exist. Otherwise the second one would create the queue.
		if _, err := ch.QueueDeclarePassive(queue, durable, autoDelete, false, false, nil); err != nil {
			return err
		}
		_, err := ch.QueueDeclare(queue, durable, autoDelete, false, false, arguments)
		return err
	})
}

// unset is the text with which the server says that a queue does not have a setting.
const unset = "none"

// inequivalent matches the text with which the server says which setting differs.
var inequivalent = regexp.MustCompile(`inequivalent arg '([^']+)' for (?:queue|exchange) .*current is (?:the value )?'?([^']*)'?`)

// difference returns the name and the value of the setting that differs, from the refusal of a server.
func difference(err error) (name, value string, differs bool) {
	var refusal *amqp.Error
	if !errors.As(err, &refusal) || refusal.Code != amqp.PreconditionFailed {
		return "", "", false
	}
	found := inequivalent.FindStringSubmatch(refusal.Reason)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}

// asArgument returns the value of a setting with the type that AMQP needs.
func asArgument(value string) any {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n
	}
	if value == "true" || value == "false" {
		return value == "true"
	}
	return value
}

func checkQueue(s settings) (findings []string) {
	add := func(is bool, finding string, args ...any) {
		if is {
			findings = append(findings, fmt.Sprintf(finding, args...))
		}
	}
	// A known value "none" means that the queue does not have the setting.
	has := func(name string) bool { value, has := s.differs[name]; return has && value != unset }
	kind := s.differs[queueType]
	bounded := has("x-max-length") || has("x-max-length-bytes")
	add(s.exclusive, "is exclusive: the queue belongs to one connection, and is deleted with that connection. Try: a queue that is not exclusive")
	add(s.differs["durable"] == "false", "is not durable: a restart of the server deletes the queue with its messages. Try: a durable quorum queue")
	add(s.differs["auto_delete"] == "true", "is deleted with its messages when its last consumer disconnects (auto-delete). Try: a queue without auto-delete")
	add(has("x-expires"), "is deleted with its messages when the queue is not used for %s ms (x-expires). Try: a queue without x-expires", s.differs["x-expires"])
	add(has("x-message-ttl"), "deletes messages after %s ms, also messages that no consumer has read (x-message-ttl). Try: a queue without x-message-ttl", s.differs["x-message-ttl"])
	add(bounded && !strings.HasPrefix(s.differs[overflow], rejectPublish), "deletes old messages when the queue is full, also messages that no consumer has read (x-overflow)."+
		" Try: x-overflow: reject-publish")
	add(kind == "stream", "is a stream: an acknowledged message stays in a stream and is delivered again. Try: a quorum queue")
	add(kind != "stream" && kind != "" && kind != quorum, "is stored on one server only: the loss of one disk loses its messages. Try: a quorum queue on three servers")
	add(has(deliveryLimit) && !strings.HasPrefix(s.differs[deliveryLimit], "-") && !has(deadLetters), "deletes a message after %s deliveries without keeping it as a dead letter."+
		" Try: no x-delivery-limit, because the inbox decides when to give up; or an x-dead-letter-exchange", s.differs[deliveryLimit])
	return findings
}
