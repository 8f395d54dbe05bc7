package amqpbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/retry"
)

const (
	dialTimeout      = 10 * time.Second
	callTimeout      = 10 * time.Second
	defaultHeartbeat = 10 * time.Second
)

// Conn is a connection to a RabbitMQ server. A Conn connects to the server at its first use, and again after the connection is lost. Several
// publishers and consumers can share one Conn.
type Conn struct {
	url    string
	server string // the address without a password, for error texts
	config amqp.Config
	turn   chan struct{} // the goroutine that holds it may connect

	mu      sync.Mutex
	current *amqp.Connection
	closed  bool
	over    context.Context //nolint:containedctx // ends when Close is called
	end     context.CancelFunc
}

var errSilent = fmt.Errorf("the RabbitMQ server has not answered within %v. Try: check that the server is up and that the queue has a leader (rabbitmq-queues quorum_status)", callTimeout)

var errClosed = errors.New("the connection was closed. Try: close the connection only after Run or Consume has returned")

// Dial returns a Conn for the server at url, such as amqp://user:password@host:5672/vhost. Dial does not connect yet, so Dial returns an error only
// if url is malformed. The parameter config may be the zero value. Dial ignores config.Recovery.
func Dial(url string, config amqp.Config) (*Conn, error) {
	parsed, err := amqp.ParseURI(url)
	if err != nil {
		return nil, fmt.Errorf("amqpbroker: the URL of the server cannot be read: %w. Try: amqp://user:password@host:5672/vhost", err)
	}
	config.Recovery = nil // with Recovery, the library would send acknowledgements of one channel over another one
	if config.Heartbeat == 0 {
		config.Heartbeat = defaultHeartbeat
	}
	c := &Conn{url: url, server: net.JoinHostPort(parsed.Host, strconv.Itoa(parsed.Port)), config: config, turn: make(chan struct{}, 1)}
	c.over, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Close closes the connection. After Close, c never connects again. Messages that were not confirmed or acknowledged before Close are
// delivered again.
func (c *Conn) Close() error {
	c.mu.Lock()
	current := c.current
	c.current, c.closed = nil, true
	c.mu.Unlock()
	// A goroutine that connects now must stop.
	c.end()
	if current == nil {
		return nil
	}
	if err := current.CloseDeadline(time.Now().Add(dialTimeout)); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("amqpbroker: close the connection to %s: %w", c.server, err)
	}
	return nil
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// open returns the open connection, or nil if no connection is open.
func (c *Conn) open() (*amqp.Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("amqpbroker: %s: %w", c.server, errClosed)
	}
	if c.current != nil && !c.current.IsClosed() {
		return c.current, nil
	}
	return nil, nil //nolint:nilnil // no connection yet
}

// connect returns a connection that is probably open. It makes one if necessary.
func (c *Conn) connect(ctx context.Context) (*amqp.Connection, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("amqpbroker: connect to %s: %w", c.server, context.Cause(ctx))
	}
	// Another goroutine may have connected while this one waited.
	if current, err := c.open(); current != nil || err != nil {
		return current, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(c.over, cancel)()
	made, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("amqpbroker: connect to %s: %w. Try: check that the server is running, and the user, password and virtual host in the URL", c.server, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Close may have been called while this goroutine connected.
	if c.closed {
		_ = made.Close()
		return nil, fmt.Errorf("amqpbroker: %s: %w", c.server, errClosed)
	}
	c.current = made
	return made, nil
}

// dial connects and logs in. The client library has no contexts, so the connection is closed when ctx ends.
func (c *Conn) dial(ctx context.Context) (*amqp.Connection, error) {
	config := c.config
	config.Dial = func(network, address string) (net.Conn, error) {
		var conn net.Conn
		var err error
		if c.config.Dial != nil {
			conn, err = c.config.Dial(network, address)
		} else {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
		}
		if err != nil {
			return nil, err
		}
		end, _ := ctx.Deadline()
		if err := conn.SetDeadline(end); err != nil { // limits the handshake; the library removes the deadline afterwards
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
	return amqp.DialConfig(c.url, config)
}

// channel opens a channel.
func (c *Conn) channel(ctx context.Context) (*amqp.Channel, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	var ch *amqp.Channel
	err = c.bounded(ctx, func() (err error) { ch, err = conn.Channel(); return err })
	if err != nil {
		return nil, fmt.Errorf("amqpbroker: open a channel at %s: %w", c.server, err)
	}
	return ch, nil
}

// bounded calls the server with a time limit. The library waits for an answer without a timeout, and a queue without a leader may
// not answer. After the time limit the connection is closed, so that the caller can try again.
func (c *Conn) bounded(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errSilent)
	defer cancel()
	defer context.AfterFunc(ctx, c.drop)()
	if err := call(); err != nil {
		// The closed connection has caused err, so the cause of the end is more useful.
		if ctx.Err() != nil {
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return err
	}
	return nil
}

// finish makes the last calls to the server, with a time limit, also after ctx has ended. The caller does not need their errors.
func (c *Conn) finish(ctx context.Context, call func() error) {
	_ = c.bounded(context.WithoutCancel(ctx), call)
}

// drop closes a connection that does not answer. The next caller connects again.
func (c *Conn) drop() {
	c.mu.Lock()
	current := c.current
	c.current = nil
	c.mu.Unlock()
	if current != nil {
		_ = current.CloseDeadline(time.Now().Add(time.Second))
	}
}

// isGone reports whether err says that a queue or an exchange does not exist.
func isGone(err error) bool {
	var refusal *amqp.Error
	return errors.As(err, &refusal) && refusal.Code == amqp.NotFound
}

// permanent returns the error of a message that no further attempt can deliver.
func permanent(format string, args ...any) error { return retry.Permanent(fmt.Errorf(format, args...)) }
