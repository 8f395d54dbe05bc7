// Command sqs delivers the events of an outbox to queues of Amazon SQS, and books refunds that arrive in one, each of them once. It uses the adapter
// of Watermill. It reads its credentials and its region from the environment.
//
//	aws sqs create-queue --queue-name refunds.fifo --attributes FifoQueue=true
//	go run .
package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/watermillbroker"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, "file:shop.db")
	stop()
	if err != nil {
		slog.Error("the service has ended", "error", err)
		os.Exit(1)
	}
}

// queue is also the topic. Its name ends with .fifo: a queue of another kind does not keep an order, and has no groups.
const queue = "refunds.fifo"

func run(ctx context.Context, dsn string) error {
	account, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	db, err := sqlstore.Open("sqlite", dsn+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := sqlstore.Migrate(ctx, db, outbox.Migrations, inbox.Migrations, deadletter.Migrations); err != nil {
		return err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "create table if not exists booking (account text, refund blob)"); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- deliver(ctx, account, s) }()
	go func() { ended <- consume(ctx, account, s) }()
	err = <-ended
	stop() // neither of them can work alone
	return errors.Join(err, <-ended)
}

// deliver delivers the events of the outbox until ctx ends.
func deliver(ctx context.Context, account aws.Config, s *sqlstore.Store) error {
	publisher, err := watermillsqs.NewPublisher(watermillsqs.PublisherConfig{
		AWSConfig: account, Marshaler: envelope{}, GenerateSendMessageInput: inGroups,
		DoNotCreateQueueIfNotExists: true, // the publisher would create it with default settings
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	return newBox(s).Relay(watermillbroker.Publisher(publisher), outbox.RelayConfig{}).Run(ctx)
}

// newBox returns the outbox to which the service adds events. SQS takes 256 KiB, and payloads travel in base64.
func newBox(s *sqlstore.Store) *outbox.Box[*sql.Tx] {
	return outbox.New(s, outbox.Config{Source: "/payments", MaxPayload: 180 << 10})
}

// consume books what arrives until ctx ends.
func consume(ctx context.Context, account aws.Config, s *sqlstore.Store) error {
	subscriber, err := watermillsqs.NewSubscriber(watermillsqs.SubscriberConfig{
		AWSConfig: account, Unmarshaler: envelope{}, DoNotCreateQueueIfNotExists: true,
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 30 * time.Second}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	in := inbox.New(once.New(s, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	router.AddConsumerHandler("billing", queue, subscriber, watermillbroker.Handler(in, book))
	go func() { _ = in.Run(ctx, book) }() // parked messages, redriven dead letters, old IDs
	return router.Run(ctx)
}

// book applies an event. Its writes commit with the fact that the event was applied.
func book(ctx context.Context, tx *sql.Tx, m oncemessage.Message) error {
	_, err := tx.ExecContext(ctx, "insert into booking (account, refund) values (?, ?)", m.Key, m.Payload)
	return err
}

// envelope puts a message with its metadata into the body. SQS allows ten attributes at most, and an event with a trace has more; bodies are text.
type envelope struct{}

type enveloped struct {
	UUID     string           `json:"uuid"`
	Metadata message.Metadata `json:"metadata"`
	Payload  []byte           `json:"payload"` // base64
}

// Marshal implements watermillsqs.Marshaler.
func (envelope) Marshal(m *message.Message) (*types.Message, error) {
	body, err := json.Marshal(enveloped{m.UUID, m.Metadata, m.Payload})
	return &types.Message{Body: aws.String(string(body))}, err
}

// Unmarshal implements watermillsqs.Unmarshaler.
func (envelope) Unmarshal(m *types.Message) (*message.Message, error) {
	var e enveloped
	if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &e); err != nil {
		// From another sender. An error would leave it in the queue; the handler decides about it.
		return message.NewMessage(aws.ToString(m.MessageId), []byte(aws.ToString(m.Body))), nil //nolint:nilerr // as above
	}
	got := message.NewMessage(e.UUID, e.Payload)
	for name, value := range e.Metadata {
		got.Metadata.Set(name, value)
	}
	return got, nil
}

// inGroups makes a group of each key, whose order the queue keeps. The queue drops a message that a relay sends again within five minutes.
func inGroups(_ context.Context, url watermillsqs.QueueURL, m *types.Message) (*sqs.SendMessageInput, error) {
	var e enveloped
	if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &e); err != nil {
		return nil, err
	}
	group := e.Metadata.Get("ce_partitionkey")
	if group == "" { // it has no order
		group = e.UUID
	}
	return &sqs.SendMessageInput{
		QueueUrl: aws.String(string(url)), MessageBody: m.Body,
		MessageGroupId:         aws.String(hash(group)), // a key may have characters that SQS does not allow
		MessageDeduplicationId: aws.String(hash(aws.ToString(m.Body))),
	}, nil
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
