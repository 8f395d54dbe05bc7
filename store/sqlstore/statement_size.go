package sqlstore

import (
	"context"

	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	tryPacket = "a smaller result, or a larger max_allowed_packet on the server and the same maxAllowedPacket in the data source name"
	trySmall  = "a smaller result, such as the name of a file"
)

// mysqlRest is more than the size of a statement without the values of its record.
const mysqlRest = 2048

const mysqlPacket = 1153 // the error "packet too large"

// tooLarge reports whether a database or its driver has refused a statement because of its size.
func tooLarge(err error) bool {
	code, ok := sqlguard.SQLiteCode(err)
	return ok && code&0xff == codeTooBig || sqlguard.SQLState(err) == postgresLimit || is(err, mysqlPacket) || sqlguard.PacketTooLarge(err)
}

const (
	codeTooBig    = 18      // of SQLite
	postgresLimit = "54000" // program_limit_exceeded
)

func (s *Store) refusedAsTooLarge(err error) error {
	try := trySmall
	if s.dialect.name == sqlplane.MySQL {
		try = tryPacket
	}
	return &store.Error{Err: &toolarge.Error{Try: try, Err: err}}
}

// sizeMySQL returns how many bytes a change needs in a packet. Its values are written in hexadecimal.
func sizeMySQL(c store.Change) int64 {
	n := c.Next
	values := len(c.ID.Scope) + len(c.ID.Key) + len(n.Nonce) + len(n.Fingerprint) + len(n.Result.Body) + len(n.Request) + len(n.Trace) + len(n.Name) + len(n.RecoveryPoint) + len(n.Data)
	for _, f := range n.Result.Header {
		values += len(f.Name) + len(f.Value) + 3
	}
	return 2*int64(values) + mysqlRest
}

// checkSize returns an error if a statement of this size is larger than the server accepts. A statement that is too large
// would cost the connection, and the reason would be lost.
func (s *Store) checkSize(ctx context.Context, on rowQuerier, size int64) error {
	if s.dialect.name != sqlplane.MySQL || size <= s.packet.Load() {
		return nil
	}
	var packet int64 // the variable may have changed since the last look
	if err := on.QueryRowContext(ctx, "select @@max_allowed_packet").Scan(&packet); err != nil {
		return s.failed(err, false)
	}
	s.packet.Store(packet)
	if size <= packet {
		return nil
	}
	return &store.Error{Err: &toolarge.Error{Bytes: size, Max: packet, Try: tryPacket}}
}

// largestValue returns the size of the largest value of a statement.
func largestValue(args []any) (most int64) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case []byte:
			most = max(most, int64(len(arg)))
		case string:
			most = max(most, int64(len(arg)))
		}
	}
	return most
}

// forgetPacket makes the next statement ask for max_allowed_packet again. A server that has lowered the variable closes
// the connection when it gets a larger packet.
func (s *Store) forgetPacket() { s.packet.Store(0) }
