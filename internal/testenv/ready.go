package testenv

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// errNotReady is the error of a server that is still starting or recovering.
var errNotReady = errors.New("not ready")

// start is one attempt to start a server.
type start struct {
	server *process
	port   int
	login  func(context.Context) error
	log    *serverLog
	// bound reports whether this server itself holds the port. Another process may have taken the port first, and may
	// answer the login.
	bound func() bool
}

// await waits until the server answers a whole login, which it does only after crash recovery. It asks repeatedly, because a
// starting server gives no other sign that does not depend on its log settings.
func (s *start) await(ctx context.Context) error {
	const pause = 3 * time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if s.bound() {
			if err := s.login(ctx); !errors.Is(err, errNotReady) {
				return err
			}
		}
		select {
		case <-s.server.done:
			return &startError{exit: s.server.err, log: s.log.tail()}
		case <-ctx.Done():
			return fmt.Errorf("testenv: server on port %d is not ready: %w; its log ends:\n%s",
				s.port, context.Cause(ctx), s.log.tail())
		case <-ticker.C:
		}
	}
}

// startError is the error of a server that has ended before it was ready.
type startError struct {
	exit error
	log  string
}

func (e *startError) Error() string {
	return fmt.Sprintf("testenv: the server ended before it was ready (%v); its log ends:\n%s", e.exit, e.log)
}

// portTaken reports whether another process has taken the port first.
func portTaken(err error) bool {
	var failed *startError
	return errors.As(err, &failed) && strings.Contains(failed.log, "Address already in use")
}

// postgresLogin returns a function that logs in as postgres and waits for ReadyForQuery. It speaks only as much of the
// PostgreSQL protocol as it needs.
func postgresLogin(port int, database string) func(context.Context) error {
	return func(ctx context.Context) error { return login(ctx, port, database) }
}

func login(ctx context.Context, port int, database string) error {
	const patience = 5 * time.Second
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.DialContext(ctx, "tcp", address(port))
	if err != nil {
		return errNotReady
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(startupMessage("user", superuser, "database", database)); err != nil {
		return errNotReady
	}
	input := bufio.NewReader(conn)
	for {
		kind, body, err := readMessage(input)
		if err != nil {
			return errNotReady // the server has closed the connection: it is starting or stopping
		}
		switch kind {
		case 'E':
			return loginError(body)
		case 'R':
			if len(body) < 4 || binary.BigEndian.Uint32(body) != 0 {
				return errors.New("testenv: the server asks for a password, although it should trust")
			}
		case 'Z':
			_, err := conn.Write([]byte{'X', 0, 0, 0, 4}) // Terminate
			return err
		}
	}
}

func startupMessage(parameters ...string) []byte {
	const version = 3 << 16
	message := binary.BigEndian.AppendUint32(make([]byte, 4), version)
	for _, text := range parameters {
		message = append(append(message, text...), 0)
	}
	message = append(message, 0)
	binary.BigEndian.PutUint32(message, uint32(len(message)))
	return message
}

func readMessage(input io.Reader) (byte, []byte, error) {
	const longest = 1 << 16
	var header [5]byte
	if _, err := io.ReadFull(input, header[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length < 4 || length > longest {
		return 0, nil, fmt.Errorf("testenv: message of %d bytes", length)
	}
	body := make([]byte, length-4)
	_, err := io.ReadFull(input, body)
	return header[0], body, err
}

// loginError returns the meaning of an ErrorResponse. A server that is starting, stopping or recovering is not ready. One that has
// too many clients is ready.
func loginError(body []byte) error {
	fields := make(map[byte]string)
	for field := range strings.SplitSeq(string(body), "\x00") {
		if field != "" {
			fields[field[0]] = field[1:]
		}
	}
	switch fields['C'] {
	case "57P03":
		return errNotReady
	case "53300":
		return nil
	}
	return fmt.Errorf("testenv: the server refuses the login: %s (SQLSTATE %s)", fields['M'], fields['C'])
}
