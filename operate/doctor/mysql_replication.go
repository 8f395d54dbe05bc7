package doctor

import (
	"context"
	"errors"
	"fmt"
)

// askReadOnly checks whether the server refuses writes, or accepts writes although it is a replica.
func askReadOnly(ctx context.Context, p *examination) (Finding, error) {
	readOnly, err := p.setting(ctx, "show global variables like 'read_only'") // super_read_only sets this variable as well
	if err != nil {
		return Finding{}, err
	}
	session, err := p.setting(ctx, "show variables like '"+p.readOnlyVariable()+"'")
	if err != nil {
		return Finding{}, err
	}
	following, err := p.follows(ctx)
	return judgeReadOnly(readOnly, session, following), err
}

// readOnlyVariable returns the name of the variable that makes a session read-only.
func (p *examination) readOnlyVariable() string {
	if p.mariadb {
		return "tx_read_only"
	}
	return "transaction_read_only"
}

// follows reports whether the server is a replica of another server. MySQL answers only users with the privilege REPLICATION CLIENT. For other users
// follows returns false, because the answer is not known.
func (p *examination) follows(ctx context.Context) (bool, error) {
	if p.mariadb {
		n, err := p.setting(ctx, "show global status like 'Slaves_running'")
		return n != "" && n != "0", err
	}
	n, err := p.count(ctx, "show replica status")
	if isDenied(err) {
		return false, nil
	}
	return n > 0, err
}

func judgeReadOnly(server, session string, following bool) Finding {
	switch {
	case server != "OFF" && server != "0":
		return fail("read_only is on: this server is a replica and accepts no writes", "use the URL of the primary")
	case session != "OFF":
		return fail("the sessions are read only: the library cannot write", "set global transaction_read_only = 0, and remove such a parameter from the URL")
	case following:
		return warn("this server replicates from another server, and accepts writes too: if an operation reaches both servers, both servers execute the operation", "run set global read_only = 1 if this server is a replica")
	}
	return fine("the server accepts writes")
}

// replication is what a server knows about its replicas.
type replication struct {
	mysql                   bool
	replicas, waited        int // connected replicas, and the replicas that acknowledge semi-synchronously
	enabled, point, timeout string
}

// askReplicas checks the replicas of the server, and whether commits wait for them. MariaDB answers every user.
func askReplicas(ctx context.Context, p *examination) (Finding, error) {
	r := replication{mysql: !p.mariadb}
	for _, v := range []struct {
		show string
		to   *string
	}{{"enabled", &r.enabled}, {"wait_point", &r.point}, {"timeout", &r.timeout}} {
		var err error
		if *v.to, err = p.setting(ctx, "show global variables like '"+r.variable(v.show)+"'"); err != nil {
			return Finding{}, err
		}
	}
	rows, err := p.DB.QueryContext(ctx, `show global status where variable_name in ('Slaves_connected', 'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients')`)
	if err != nil {
		return Finding{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return Finding{}, err
		}
		if name == "Slaves_connected" {
			r.replicas = n
		} else {
			r.waited = n
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return Finding{}, err
	}
	// Without semi-synchronous replication MySQL does not count its replicas in the status.
	if r.mysql && r.enabled != "ON" {
		r.replicas, err = p.count(ctx, "show replicas")
	}
	if isDenied(err) {
		return fine("not checked: this user may not list the replicas, and a service needs no such privilege. A user with the privilege replication slave can make this check"), nil
	}
	return r.judge(), err
}

// variable returns the name of a setting of semi-synchronous replication.
func (r replication) variable(name string) string {
	if r.mysql {
		return "rpl_semi_sync_source_" + name
	}
	return "rpl_semi_sync_master_" + name
}

func (r replication) judge() Finding {
	replica := "rpl_semi_sync_slave_enabled = ON"
	if r.mysql {
		replica = "rpl_semi_sync_replica_enabled = ON"
	}
	switch on := r.enabled == "ON" || r.enabled == "1"; {
	case on && r.waited == 0:
		return warn("semi-synchronous replication is on, but no replica acknowledges commits: each commit waits until the timeout, or no longer waits", "start the replica, with "+replica)
	case on && r.point != "AFTER_SYNC":
		return warn("replays do not wait for a replica: with "+r.point+" a replay may return the result of a commit that no replica has. The next failover loses this commit", "set global "+r.variable("wait_point")+" = AFTER_SYNC")
	case on:
		return fine("a commit is visible only after a replica has the commit, or after %s ms without a replica", r.timeout)
	case r.replicas > 0:
		return warn(fmt.Sprintf("replicas exist (%d), but neither commits nor replays wait for them: a failover loses the commits that no replica has received, and retries of these operations execute again", r.replicas),
			"if a replica may become the primary, set "+r.variable("enabled")+" = ON and "+r.variable("wait_point")+" = AFTER_SYNC, and "+replica+" on the replica")
	}
	return fine("the server has no replicas")
}

// askGroup checks a group of servers: Galera, or group replication of MySQL. It does not apply to a single server.
func askGroup(ctx context.Context, p *examination) (Finding, error) {
	if galera, err := p.setting(ctx, "show variables like 'wsrep_on'"); err != nil || galera == "ON" {
		return judgeGroup("", ""), err
	}
	group, err := p.setting(ctx, "show global variables like 'group_replication_group_name'")
	if err != nil || group == "" {
		return Finding{}, err
	}
	single, err := p.setting(ctx, "show global variables like 'group_replication_single_primary_mode'")
	if err != nil {
		return Finding{}, err
	}
	return askVariable("group_replication_consistency", "", func(consistency string) Finding { return judgeGroup(single, consistency) })(ctx, p)
}

// judgeGroup judges the consistency of a group. A member that lags refuses at COMMIT a write that conflicts with a transaction which it has not
// applied yet. Galera has no setting for a single primary.
func judgeGroup(single, consistency string) Finding {
	const stale = "so if the answer to a COMMIT is lost, the library may report the COMMIT as not applied although the COMMIT was applied. Then a retry may run the handler again, and the server refuses the COMMIT of the retry"
	switch {
	case single == "":
		return warn("Galera: a node may lack transactions that another node has committed, "+stale, "send all requests of the service to one node, or set wsrep_sync_wait = 7")
	case single != "ON" && consistency != "BEFORE" && consistency != "AFTER" && consistency != "BEFORE_AND_AFTER":
		return warn("group replication with several primaries and "+consistency+": a member may lack transactions that another member has committed, "+stale,
			"set group_replication_single_primary_mode = ON, or group_replication_consistency = AFTER")
	case consistency == "EVENTUAL":
		return warn("group replication with EVENTUAL: after a failover, the new primary answers before it has applied all committed transactions, "+stale,
			"set persist group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER'")
	}
	return fine("group replication, %s", consistency)
}
