package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"
)

// Replica is a MariaDB or MySQL server that replicates from another server, asynchronously.
type Replica struct {
	*MariaDB

	primary *MariaDB
	words   replication
}

// replication has the statements that make a server replicate, and that ask how far it is.
type replication struct {
	source, start, stop, delay, position, wait string

	status         string // the status of a replica
	semisync, acks string // the prefixes of the settings for semi-synchronous replication, on the primary and on the replica
	plugins        string // statements that install semi-synchronous replication; empty if it is built in
	promote        string
}

//nolint:gochecknoglobals // constants
var (
	mariadbReplication = replication{
		source: "change master to master_host = '%s', master_port = %s, master_user = 'follower'",
		start:  "start slave", stop: "stop slave", delay: "change master to master_delay = %d",
		position: "show master status", wait: "select master_pos_wait('%s', %s, 300)",
		status: "show slave status", semisync: "rpl_semi_sync_master", acks: "rpl_semi_sync_slave",
		promote: "stop slave; reset slave all",
	}
	mysqlReplication = replication{
		source: "change replication source to source_host = '%s', source_port = %s, source_user = 'follower', get_source_public_key = 1",
		start:  "start replica", stop: "stop replica", delay: "change replication source to source_delay = %d",
		position: "show binary log status", wait: "select source_pos_wait('%s', %s, 300)",
		status: "show replica status", semisync: "rpl_semi_sync_source", acks: "rpl_semi_sync_replica",
		plugins: "install plugin rpl_semi_sync_source soname 'semisync_source.so'; install plugin rpl_semi_sync_replica soname 'semisync_replica.so'",
		promote: "stop replica; reset replica all",
	}
)

// StartReplica starts a replica of a server of the same kind. The primary must have the settings of [ReplicationPrimary], and its
// binary log must have everything that was ever written to it. The primary may be a former replica. ctx limits only the
// start.
func StartReplica(ctx context.Context, primary *MariaDB, settings map[string]string) (*Replica, error) {
	all := map[string]string{"server-id": strconv.Itoa(primary.serverID() + 1)}
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
		_, err = primary.Query(ctx, "", "create user if not exists follower@'%'; grant replication slave on *.* to follower@'%'")
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

// ReplicationPrimary returns the settings of a server that can have a [Replica].
func ReplicationPrimary() map[string]string {
	return map[string]string{"log-bin": "on", "server-id": "1"}
}

// ReplicationStandby returns the settings of a [Replica] that can be promoted. It accepts no writes of clients, and writes what it
// applies to a binary log. It applies with one thread, so that it can report when it has applied everything.
func ReplicationStandby(mysql bool) map[string]string {
	settings := map[string]string{"log-bin": "on", "log-slave-updates": "ON", "read-only": "ON"}
	if mysql {
		settings["replica-parallel-workers"] = "0"
	}
	return settings
}

func (m *MariaDB) serverID() int {
	id, _ := strconv.Atoi(m.config.Settings["server-id"])
	return id
}

// WaitsFor makes every COMMIT of the primary wait until the replica has received it, before any reader sees it (semi-synchronous
// replication with AFTER_SYNC). WaitsFor returns when this is in effect.
func (r *Replica) WaitsFor(ctx context.Context) error {
	for _, m := range []*MariaDB{r.primary, r.MariaDB} {
		if r.words.plugins == "" {
			continue
		}
		installed, err := m.Query(ctx, "", "select count(*) from information_schema.plugins where plugin_name = 'rpl_semi_sync_source'")
		if err == nil && installed == "0" {
			_, err = m.Query(ctx, "", r.words.plugins)
		}
		if err != nil {
			return err
		}
	}
	const forever = 1 << 31
	_, err := r.primary.Query(ctx, "", fmt.Sprintf("set global %[1]s_wait_point = AFTER_SYNC, global %[1]s_timeout = %[2]d, global %[1]s_enabled = 1", r.words.semisync, forever))
	if err == nil {
		_, err = r.Query(ctx, "", "set global "+r.words.acks+"_enabled = 1; "+r.words.stop+"; "+r.words.start)
	}
	if err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		clients, err := r.primary.Query(ctx, "", "show global status like '"+r.words.semisync+"_clients'")
		return strings.HasSuffix(clients, "\t1"), err
	})
}

// Cut stops the replica from receiving anything more.
func (r *Replica) Cut(ctx context.Context) error {
	_, err := r.Query(ctx, "", r.words.stop+" io_thread")
	return err
}

// Promote waits until the replica has applied all that it has received, and makes it a primary that accepts writes.
func (r *Replica) Promote(ctx context.Context) error {
	if err := r.Cut(ctx); err != nil {
		return err
	}
	err := until(ctx, func() (bool, error) {
		status, err := r.Query(ctx, "", r.words.status)
		return strings.Contains(status, "has read all relay log"), err
	})
	if err == nil {
		_, err = r.Query(ctx, "", r.words.promote+"; set global read_only = 0")
	}
	return err
}

// until asks repeatedly for a minute, because replication gives no signal.
func until(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("testenv: replication has not got there within a minute: %w", err)
		}
	}
}

// CatchUp waits until the replica has everything that the primary has at this moment.
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
		err = errors.New("testenv: the replica has not got there within five minutes: " + n)
	}
	return err
}

// Lag makes the replica fall behind. It does not apply later commits of the primary before
// [Replica.Heal].
func (r *Replica) Lag(ctx context.Context) error { return r.delay(ctx, 24*60*60) }

// Heal ends the effect of Lag, and waits until the replica has caught up.
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
