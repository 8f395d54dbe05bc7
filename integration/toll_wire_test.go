package integration

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// postgresWire is the protocol of PostgreSQL, without encryption.
type postgresWire struct{}

func (postgresWire) hello(client *bufio.Reader, server io.Writer) error {
	size, err := client.Peek(4)
	if err == nil {
		_, err = io.CopyN(server, client, int64(binary.BigEndian.Uint32(size)))
	}
	return err
}

func (postgresWire) next(client *bufio.Reader) (f frame, err error) {
	head, err := client.Peek(5)
	if err != nil {
		return f, err
	}
	f.bytes = make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
	_, err = io.ReadFull(client, f.bytes)
	switch f.bytes[0] {
	case 'Q':
		f.counts, f.ends = true, true
	case 'P', 'E': // parse, execute
		f.counts, f.part = true, true
	case 'B', 'D', 'C': // bind, describe, close
		f.part = true
	case 'S': // sync
		f.ends = true
	}
	return f, err
}

func (postgresWire) query(text string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(text)+1))
	return append(append(b, text...), 0)
}

func (postgresWire) flush() []byte { return []byte{'H', 0, 0, 0, 4} }

func (postgresWire) reader() reader { return new(postgresReader) }

func (postgresWire) over(answer []byte) bool {
	n := len(answer)
	return n >= 6 && string(answer[n-6:n-1]) == "Z\x00\x00\x00\x05"
}

func raisePostgres(state string) string {
	return fmt.Sprintf("do $$ begin raise exception using errcode = '%s', message = 'raised'; end $$", state)
}

// mysqlWire is the protocol of MySQL and MariaDB, without encryption.
type mysqlWire struct{}

func (mysqlWire) hello(*bufio.Reader, io.Writer) error { return nil }

func (mysqlWire) next(client *bufio.Reader) (f frame, err error) {
	head, err := client.Peek(4)
	if err != nil {
		return f, err
	}
	f.bytes = make([]byte, 4+int(head[0])+int(head[1])<<8+int(head[2])<<16)
	_, err = io.ReadFull(client, f.bytes)
	const query, prepare, execute = 0x03, 0x16, 0x17
	if begins := f.bytes[3] == 0 && len(f.bytes) > 4; begins { // else it is a part of the login
		f.counts = f.bytes[4] == query || f.bytes[4] == prepare || f.bytes[4] == execute
		if f.bytes[4] == query {
			f.text = string(f.bytes[5:])
		}
	}
	f.ends = true
	return f, err
}

func (mysqlWire) query(text string) []byte {
	n := 1 + len(text)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, 0x03}, text...)
}

func (mysqlWire) flush() []byte { return nil }

func (mysqlWire) reader() reader { return nil }

// over: every answer here is small.
func (mysqlWire) over([]byte) bool { return true }
