package pgsql

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// ClaimProbe takes a claim that no operation has, and returns whether the server keeps it, and what
// the server is. Some servers that speak the protocol of PostgreSQL accept advisory locks and
// do nothing (CockroachDB). There "no record, and the claim is free" would not prove that a
// commit whose answer was lost was not applied. It has no parameters, so that any mode of any
// driver can send it.
func ClaimProbe() string {
	key := rand.Int64() // two probes at a time must not meet
	return `with claim as materialized (select pg_try_advisory_xact_lock(` + strconv.FormatInt(key, 10) + `::bigint) as granted)
 select (select count(*) from pg_locks where claim.granted and granted and locktype = 'advisory' and pid = pg_backend_pid()
 and classid::bigint = ` + strconv.FormatInt(key>>32, 10) + ` and objid::bigint = ` + strconv.FormatInt(key&0xffffffff, 10) + `) = 1, version() from claim`
}

// Unproven is the error if ClaimProbe returns false.
func Unproven(version string) error {
	return fmt.Errorf("this server does not keep advisory locks, by which operations are claimed: %s. Try: PostgreSQL itself; CockroachDB and other servers that speak its protocol accept such locks and do nothing", version)
}
