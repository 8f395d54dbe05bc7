package payments

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/oncelib/once/oncehttp"
)

// failure is the problem for a client after an internal error of an unprotected request. oncehttp's problems do not fit, because what they say about
// keys and effects would not be true here.
func failure(method string, down bool) *problem {
	p := shared(http.StatusInternalServerError, "INTERNAL.failed", "Internal error", "The request has failed. The reason is in the log of the service.")
	if down {
		p = shared(http.StatusServiceUnavailable, oncehttp.ProblemStoreUnavailable, "Temporarily unavailable", "At the moment the service cannot reach or use its database.")
		p.RetryAfter = time.Second
	}
	switch method {
	case http.MethodGet, http.MethodHead:
		p.Retryable = down
	case http.MethodPut: // the precondition of a PUT lets it take effect at most once, so a retry is safe
		p.Retryable = down
		p.Detail += " A GET request shows whether the change was made."
	default:
		p.Detail += " The service does not know whether the request took effect."
	}
	return p
}

// isDown reports whether err is about the state of the database, which may change soon, and not about a statement.
func isDown(err error) bool {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		switch class := pe.Code[:min(2, len(pe.Code))]; class {
		case "08", "40", "53", "57", "58": // connection, conflict, resources, operator, system
			return true
		}
		return false
	}
	var se *sqlite.Error
	if errors.As(err, &se) {
		switch se.Code() & 0xff { // without the extension
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
			sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL:
			return true
		}
		return false
	}
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}
