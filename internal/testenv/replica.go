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

// Replica is a MariaDB, or a MySQL, that replicates from another one, asynchronously.
type Replica struct {
	*MariaDB

	primary *MariaDB
	words   replication
}

// replication is how a server is told to replicate, and asked how far it is.
type replication struct {
	source, start, stop, delay, position, wait string

	status         string // of a replica
	semisync, acks string // how the settings of semi-synchronous replication begin, on the primary and on the replica
	plugins        string // that install it; empty if it is built in
	promote        string
}

//nolint:gochecknoglobals // constants
var (
	mariadbReplication = replication{
		source: "change master to master_host = '%s', master_port = %s, master_user = 'follower'",
		start:  "start slave", stop: "stop slave", delay: "change master to master_delay = %d",
		position: "show master status", wait: "select master_pos_wait('%s', %s, 60)",
		status: "show slave status", semisync: "rpl_semi_sync_master", acks: "rpl_semi_sync_slave",
		promote: "stop slave; reset slave all",
	}
	mysqlReplication = replication{
		source: "change replication source to source_host = '%s', source_port = %s, source_user = 'follower', get_source_public_key = 1",
		start:  "start replica", stop: "stop replica", delay: "change replication source to source_delay = %d",
		position: "show binary log status", wait: "select source_pos_wait('%s', %s, 60)",
		status: "show replica status", semisync: "rpl_semi_sync_source", acks: "rpl_semi_sync_replica",
		plugins: "install plugin rpl_semi_sync_source soname 'semisync_source.so'; install plugin rpl_semi_sync_replica soname 'semisync_replica.so'",
		promote: "stop replica; reset replica all",
	}
)

// StartReplica starts a replica of a server, which is of the same kind, must have the settings
// of [ReplicationPrimary] and must have all that was ever written to it in its binary log. It may have been a replica itself. The
// context bounds the start only.
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

// ReplicationPrimary are the settings of a server that can have a [Replica].
func ReplicationPrimary() map[string]string {
	return map[string]string{"log-bin": "on", "server-id": "1"}
}

// ReplicationStandby are the settings of a [Replica] that can be promoted: it takes no writes of clients, and keeps in a binary log
// what it applies. One thread applies it, so that it says when it has applied all.
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

// WaitsFor makes every COMMIT of the primary wait until the replica has received it, before any reader sees it
// (semi-synchronous replication with AFTER_SYNC), and returns when that has begun.
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

// Cut has the replica receive nothing more.
func (r *Replica) Cut(ctx context.Context) error {
	_, err := r.Query(ctx, "", r.words.stop+" io_thread")
	return err
}

// Promote makes the replica a primary that takes writes, when it has applied all that it has received.
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

// until asks again and again for a minute, because replication sends no signal.
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
