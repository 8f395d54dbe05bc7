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

// none returns nil for the error that a query has found no row.
func none(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

func askSQLiteVersion(ctx context.Context, p *examination) (Finding, error) {
	version, err := p.text(ctx, "select sqlite_version()")
	return fine("SQLite %s, which is in the program; that of the service may be another", version), err
}

func askFilesystem(_ context.Context, p *examination) (Finding, error) {
	if p.Path == "" {
		return Finding{}, nil
	}
	kind, err := filesystem(p.Path)
	return filesystemFinding(kind), err
}

// filesystemFinding judges the name of a file system, "" if that is not known.
func filesystemFinding(kind string) Finding {
	const try = "a local disk; or PostgreSQL, which is made for a network"
	switch kind {
	case "":
		return Finding{}
	case "NFS", "SMB", "AFS", "Ceph", "Lustre":
		return fail(kind+": locks over a network do not hold, and WAL needs shared memory. Two hosts may write at one time, and the file breaks", try)
	case "9p", "FUSE":
		return warn(kind+": whether its locks hold and a flush reaches the disk depends on what is behind it", try)
	}
	return fine("%s", kind)
}

func askJournal(ctx context.Context, p *examination) (Finding, error) {
	mode, err := p.text(ctx, "pragma journal_mode")
	const try = "_pragma=journal_mode(WAL) in the data source name"
	switch mode {
	case "off":
		return fail("off: nothing can be rolled back, so that half an operation may stay", try), err
	case "memory":
		return fail("memory: a process that is killed while it writes breaks the file", try), err
	case "wal":
		return fine("WAL"), err
	}
	return warn(mode+": a replay waits for a transaction that writes", try), err
}

func askSynchronous(ctx context.Context, p *examination) (Finding, error) {
	if !p.AsService {
		return fine("FULL, unless the service sets it: it belongs to each connection. To see the service's, name its data source: --db 'file:...'"), nil
	}
	var mode int
	err := p.DB.QueryRowContext(ctx, "pragma synchronous").Scan(&mode)
	const try = "_pragma=synchronous(FULL) in the data source name"
	switch mode {
	case 0:
		return fail("OFF: a power failure takes commits that were acknowledged, and may break the file", try), err
	case 1:
		return warn("NORMAL: with WAL, a power failure takes the last commits that were acknowledged, key and effect together, and a retry executes again; without, it may break the file", try), err
	case 2:
		return fine("FULL"), err
	}
	return fine("EXTRA"), err
}

func askBusy(ctx context.Context, p *examination) (Finding, error) {
	if !p.AsService {
		return Finding{}, nil // the one that is asked is this program's own
	}
	var ms int
	err := p.DB.QueryRowContext(ctx, "pragma busy_timeout").Scan(&ms)
	const try = "_pragma=busy_timeout(5000) in the data source name"
	switch {
	case ms == 0:
		return fail("0: of two requests at one time one fails at once, and sqlstore refuses to start", try), err
	case ms < 1000:
		return warn(fmt.Sprintf("%d ms: writers follow each other, and a longer queue than that fails", ms), try), err
	}
	return fine("%d ms", ms), err
}
