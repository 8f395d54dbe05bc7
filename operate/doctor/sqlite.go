package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

var sqliteChecks = []check{
	{name: "version", ask: askSQLiteVersion},
	{name: "migrations", ask: askMigrations},
	{name: "filesystem", ask: askFilesystem},
	{name: "journal_mode", ask: askJournal},
	{name: "synchronous", ask: askSynchronous},
	{name: "busy_timeout", ask: askBusy},
}

// none returns nil if err says that a query has found no row, and err otherwise.
func none(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

func askSQLiteVersion(ctx context.Context, p *examination) (Finding, error) {
	version, err := p.text(ctx, "select sqlite_version()")
	return fine("SQLite %s, the version in the command once; the service may contain another version", version), err
}

func askFilesystem(_ context.Context, p *examination) (Finding, error) {
	if p.Path == "" {
		return Finding{}, nil
	}
	kind, err := filesystem(p.Path)
	return filesystemFinding(kind), err
}

// filesystemFinding judges a file system by its name. The name is "" if it is not known.
func filesystemFinding(kind string) Finding {
	const try = "put the file on a local disk; or use PostgreSQL, which clients reach over a network"
	switch kind {
	case "":
		return Finding{}
	case "NFS", "SMB", "AFS", "Ceph", "Lustre":
		return fail(kind+": file locks are not reliable over a network, and WAL needs shared memory. Two machines may write at the same time, which destroys the file", try)
	case "9p", "FUSE":
		return warn(kind+": the doctor cannot see the file system behind it. File locks may be unreliable, and a flush may not reach the disk", try)
	}
	return fine("%s", kind)
}

func askJournal(ctx context.Context, p *examination) (Finding, error) {
	mode, err := p.text(ctx, "pragma journal_mode")
	const try = "_pragma=journal_mode(WAL) in the data source name"
	switch mode {
	case "off":
		return fail("journal_mode is off: SQLite cannot roll back a transaction, so a part of a failed operation may stay", try), err
	case "memory":
		return fail("journal_mode is memory: a process that is killed while it writes destroys the file", try), err
	case "wal":
		return fine("WAL"), err
	}
	return warn("journal_mode is "+mode+": a replay waits while another transaction writes", try), err
}

func askSynchronous(ctx context.Context, p *examination) (Finding, error) {
	if !p.AsService {
		return fine("FULL in the connection of the doctor. Each connection of the service has its own setting. To check that setting, give the data source name of the service: --db 'file:...'"), nil
	}
	var mode int
	err := p.DB.QueryRowContext(ctx, "pragma synchronous").Scan(&mode)
	const try = "_pragma=synchronous(FULL) in the data source name"
	switch mode {
	case 0:
		return fail("synchronous is OFF: a power failure loses acknowledged commits, and may destroy the file", try), err
	case 1:
		return warn("synchronous is NORMAL: with WAL, a power failure loses the last acknowledged commits, keys and effects together, and a retry executes again; without WAL, a power failure may destroy the file", try), err
	case 2:
		return fine("FULL"), err
	}
	return fine("EXTRA"), err
}

func askBusy(ctx context.Context, p *examination) (Finding, error) {
	if !p.AsService {
		return Finding{}, nil // the setting belongs to each connection, and this connection is not the one of the service
	}
	var ms int
	err := p.DB.QueryRowContext(ctx, "pragma busy_timeout").Scan(&ms)
	const try = "_pragma=busy_timeout(5000) in the data source name"
	switch {
	case ms == 0:
		return fail("busy_timeout is 0: if two requests write at the same time, one request fails immediately, and sqlstore refuses to start", try), err
	case ms < 1000:
		return warn(fmt.Sprintf("busy_timeout is %d ms: a write waits for other writes, and fails if it waits longer than this time", ms), try), err
	}
	return fine("%d ms", ms), err
}
