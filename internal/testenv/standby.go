package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Standby is a streaming copy of a [Postgres]. It answers queries, and refuses writes until it is
// promoted.
type Standby struct {
	*Postgres

	primary *Postgres
	name    string
}

// StartStandby copies a running server, and starts the copy as its standby. name has only lower-case letters. ctx limits only the
// start.
func StartStandby(ctx context.Context, primary *Postgres, name string) (*Standby, error) {
	dir, err := newDirectory("once-standby-", primary.who)
	if err != nil {
		return nil, err
	}
	s := &Standby{Postgres: &Postgres{who: primary.who, bin: primary.bin, dir: dir}, primary: primary, name: name}
	if err := s.copy(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// copy makes a base backup, and configures it as a standby.
func (s *Standby) copy(ctx context.Context) error {
	_, err := runTool(ctx, s.who, "", filepath.Join(s.bin, "pg_basebackup"), "--pgdata="+s.DataDir(),
		"--dbname="+s.primary.URL(superuser), "--checkpoint=fast", "--no-sync")
	if err != nil {
		return err
	}
	if err := s.makeSocketDir(); err != nil {
		return err
	}
	// The settings that Set has made on the primary are not for its copy: otherwise the standby of a former standby would follow the wrong server.
	if err := os.Truncate(filepath.Join(s.DataDir(), "postgresql.auto.conf"), 0); err != nil {
		return err
	}
	signal := filepath.Join(s.DataDir(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	return errors.Join(s.who.own(signal), s.configure(PostgresConfig{Settings: map[string]string{
		"primary_conninfo":            s.source(),
		"wal_retrieve_retry_interval": "50ms", // the pause between two attempts to reach the primary
	}}))
}

func (s *Standby) source() string {
	return fmt.Sprintf("host=%s port=%d user=%s application_name=%s sslmode=disable", loopback, s.primary.Port(), superuser, s.name)
}

// WaitsFor makes every COMMIT of the server wait until the standby has flushed it. WaitsFor returns when this is in
// effect.
func (p *Postgres) WaitsFor(ctx context.Context, s *Standby) error {
	if err := p.Set(ctx, "synchronous_standby_names", s.name); err != nil {
		return err
	}
	return p.until(ctx, "select count(*) = 1 from pg_stat_replication where sync_state = 'sync' and state = 'streaming'")
}

// Cut ends the stream, and returns when the primary has noticed it. From now on the standby receives nothing, and commits that
// wait for it keep waiting.
func (s *Standby) Cut(ctx context.Context) error {
	if err := s.Set(ctx, "primary_conninfo", ""); err != nil {
		return err
	}
	return s.primary.until(ctx, "select count(*) = 0 from pg_stat_replication where application_name = '"+s.name+"'")
}

// Heal ends the effect of Cut. It returns when the standby has everything that the primary had at the moment of the
// call.
func (s *Standby) Heal(ctx context.Context) error {
	lsn, err := s.primary.Query(ctx, superuser, "select pg_current_wal_flush_lsn()")
	if err != nil {
		return err
	}
	if err := s.Set(ctx, "primary_conninfo", s.source()); err != nil {
		return err
	}
	return s.primary.until(ctx, "select count(*) = 1 from pg_stat_replication where application_name = '"+s.name+"' and flush_lsn >= '"+lsn+"'")
}

// Promote makes the standby a primary, and returns when it accepts writes. The new primary waits for no
// standby.
func (s *Standby) Promote(ctx context.Context) error {
	if err := s.Set(ctx, "synchronous_standby_names", ""); err != nil {
		return err
	}
	promoted, err := s.Query(ctx, superuser, "select pg_promote(true, 60)")
	if err == nil && promoted != "t" {
		err = errors.New("testenv: the standby was not promoted within a minute")
	}
	return err
}
