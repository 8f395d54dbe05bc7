package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
)

// Replica is a MariaDB, or a MySQL, that replicates from another one, asynchronously.
type Replica struct {
	*MariaDB

	primary *MariaDB
	words   replication
}

// replication is how a server is told to replicate, and asked how far it is.
type replication struct{ source, start, stop, delay, position, wait string }

//nolint:gochecknoglobals // constants
var (
	mariadbReplication = replication{
		source: "change master to master_host = '%s', master_port = %s, master_user = 'follower'",
		start:  "start slave", stop: "stop slave", delay: "change master to master_delay = %d",
		position: "show master status", wait: "select master_pos_wait('%s', %s, 60)",
	}
	mysqlReplication = replication{
		source: "change replication source to source_host = '%s', source_port = %s, source_user = 'follower', get_source_public_key = 1",
		start:  "start replica", stop: "stop replica", delay: "change replication source to source_delay = %d",
		position: "show binary log status", wait: "select source_pos_wait('%s', %s, 60)",
	}
)

// StartReplica starts a replica of a server, which is of the same kind, must have the settings
// of [ReplicationPrimary] and must not have been written to. The context bounds the start only.
func StartReplica(ctx context.Context, primary *MariaDB, settings map[string]string) (*Replica, error) {
	all := map[string]string{"server-id": "2"}
	maps.Copy(all, settings)
	m, err := StartMariaDB(ctx, MariaDBConfig{MySQL: primary.config.MySQL, Settings: all})
	if err != nil {
		return nil, err
	}
	r := &Replica{m, primary, mariadbReplication}
	if primary.config.MySQL {
		r.words = mysqlReplication
	}
	host, port, err := net.SplitHostPort(primary.Addr())
	if err == nil {
		_, err = primary.Query(ctx, "", "create user follower@'%'; grant replication slave on *.* to follower@'%'")
	}
	if err == nil {
		_, err = r.Query(ctx, "", fmt.Sprintf(r.words.source, host, port)+"; "+r.words.start)
	}
	if err == nil {
		err = r.CatchUp(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return r, nil
}

// ReplicationPrimary are the settings of a server that can have a [Replica].
func ReplicationPrimary() map[string]string {
	return map[string]string{"log-bin": "on", "server-id": "1"}
}

// CatchUp returns when the replica has all that the primary has had at this moment.
func (r *Replica) CatchUp(ctx context.Context) error {
	position, err := r.primary.Query(ctx, "", r.words.position)
	if err != nil {
		return err
	}
	fields := strings.Fields(position)
	if len(fields) < 2 {
		return fmt.Errorf("testenv: a primary without a binary log: %q", position)
	}
	waited, err := r.Query(ctx, "", fmt.Sprintf(r.words.wait, fields[0], fields[1]))
	if n := strings.TrimSpace(waited); err == nil && (n == "NULL" || n == "-1") {
		err = errors.New("testenv: the replica has not got there within a minute: " + n)
	}
	return err
}

// Lag makes the replica fall behind: what the primary commits from now on is not applied
// before [Replica.Heal].
func (r *Replica) Lag(ctx context.Context) error { return r.delay(ctx, 24*60*60) }

// Heal undoes Lag, and returns when the replica has caught up.
func (r *Replica) Heal(ctx context.Context) error {
	if err := r.delay(ctx, 0); err != nil {
		return err
	}
	return r.CatchUp(ctx)
}

func (r *Replica) delay(ctx context.Context, seconds int) error {
	_, err := r.Query(ctx, "", r.words.stop+"; "+fmt.Sprintf(r.words.delay, seconds)+"; "+r.words.start)
	return err
}
