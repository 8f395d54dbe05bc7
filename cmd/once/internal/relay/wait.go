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

// A relay that is started before its database waits for it: many starts of a supervisor would be slower, and louder. What waiting cannot
// mend is an error: a wrong password, a database or a table that is missing.

const (
	firstWait = 250 * time.Millisecond
	mostWait  = 10 * time.Second
)

// waitForRelay is openRelay for a database that may not be reached yet. It tells log why it waits. After ctx, the error is that of ctx.
func waitForRelay(ctx context.Context, log *slog.Logger, dsn string, cfg outbox.Config) (relayDB, error) {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		db, err := openRelay(ctx, dsn, cfg)
		if err == nil {
			if _, err = db.Backlog(ctx); err == nil { // before it says that it runs
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
		log.WarnContext(ctx, "the database is not reached, and is waited for", slog.Duration("after", wait), slog.Any("error", err))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return relayDB{}, ctx.Err()
		}
	}
}

// isUnreached reports whether err says that a server was not reached, or that it takes no connection yet, and nothing about what was asked of it.
func isUnreached(err error) bool {
	switch sqlguard.SQLState(err) {
	case "": // PostgreSQL has said nothing
	case "57P01", "57P02", "57P03", "53300": // it ends or starts, or has too many connections
		return true
	default:
		return false
	}
	switch code, _ := sqlguard.MySQLCode(err); code {
	case 0:
	case 1040, 1053: // too many connections, or it ends
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
