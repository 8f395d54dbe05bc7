package relay

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/outbox"
)

// A relay that is started before its database waits for it: repeated starts by a supervisor would be slower, with more logs. An error that waiting
// cannot solve ends it: a wrong password, a missing database or table.

const (
	firstWait = 250 * time.Millisecond
	mostWait  = 10 * time.Second
)

// waitForRelay is openRelay for a database that may not be reachable yet. It logs why it waits. After the end of ctx, it returns the error of ctx.
func waitForRelay(ctx context.Context, log *slog.Logger, dsn string, cfg outbox.Config) (relayDB, error) {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		db, err := openRelay(ctx, dsn, cfg)
		if err == nil {
			if _, err = db.Backlog(ctx); err == nil { // the relay logs that it runs only after the database has answered
				return db, nil
			}
			err = refused(db.Database, "read", err)
			db.close()
		}
		if ctx.Err() != nil {
			return relayDB{}, ctx.Err()
		}
		if !isUnreached(err) {
			return relayDB{}, err
		}
		log.WarnContext(ctx, "the database cannot be reached; the relay waits and tries again", slog.Duration("after", wait), slog.Any("error", err))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return relayDB{}, ctx.Err()
		}
	}
}

// isUnreached reports whether err says that a server was not reached, or accepts no connection yet, and not that the statement was wrong.
func isUnreached(err error) bool {
	switch sqlguard.SQLState(err) {
	case "": // not an error of PostgreSQL
	case "57P01", "57P02", "57P03", "53300": // it shuts down or starts, or has too many connections
		return true
	default:
		return false
	}
	switch code, _ := sqlguard.MySQLCode(err); code {
	case 0:
	case 1040, 1053: // too many connections, or it shuts down
		return true
	default:
		return false
	}
	for _, is := range [...]error{cli.ErrNoAnswer, io.EOF, io.ErrUnexpectedEOF, driver.ErrBadConn, mysql.ErrInvalidConn, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError))
}
