package pgsql

import (
	"encoding/hex"
	"encoding/json"

	"github.com/oncelib/once/store/upkeep"
)

// These are the statements of the sweeper. They run at READ COMMITTED, because at a higher level a row that another session has
// just deleted would cause an error.
const (
	// Sweep deletes $1 operations that expired at $2 or later. It returns the number of deleted operations, and the latest of
	// their expiry times, or $2. It skips rows that another sweeper, or a claim that replaces them, has locked.
	Sweep = `with swept as (delete from once_operation where ctid = any(array(
 select ctid` + expiredRows + ` for update skip locked)) returning expires_at) select count(*), coalesce(max(expires_at), $2) from swept`

	// SweepByKey is Sweep for servers whose rows have no ctid.
	SweepByKey = `with swept as (delete from once_operation where (scope, key) in (
 select scope, key` + expiredRows + ` for update skip locked) returning expires_at) select count(*), coalesce(max(expires_at), $2) from swept`

	// SweepLock is granted to one transaction at a time, because two sweepers that archive at the same time would archive every
	// record twice.
	SweepLock = `select pg_try_advisory_xact_lock(7881702260482471169)`

	// Expiring reads the rows that Sweep would delete: the key, the expiry, and the columns of a record.
	Expiring = `select scope, key, expires_at, ` + columns + expiredRows

	// SweepKept deletes the operations that Expiring has returned and that have not changed since. $1 is a JSON list of scope, key
	// and claim; the claim is in hexadecimal.
	SweepKept = `delete from once_operation where ctid = any(array(
 select o.ctid ` + keptRows + `))`

	// SweepKeptByKey is SweepKept for servers whose rows have no ctid.
	SweepKeptByKey = `delete from once_operation where (scope, key) in (
 select o.scope, o.key ` + keptRows + `)`

	keptRows = `from json_to_recordset($1::json) as kept(scope text, key text, claim text)
 join once_operation o on o.scope = kept.scope and o.key = kept.key and o.claim = decode(kept.claim, 'hex')
 where o.state = 2 and o.expires_at <= now() for update of o skip locked`

	// SweepLightly saves work of the disk, because a sweep that is lost in a crash is repeated. It also saves work of the
	// planner, which would look for the oldest row each time, and would read all deleted rows that are not vacuumed yet.
	SweepLightly = `select set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`

	expiredRows = ` from once_operation
 where state = 2 and expires_at <= now() and expires_at >= $2 order by expires_at limit $1`
)

// Kept returns the argument of SweepKept. SQLite can read it, too.
func Kept(rows []upkeep.Expired) string {
	type kept struct {
		Scope string `json:"scope"`
		Key   string `json:"key"`
		Claim string `json:"claim"`
	}
	list := make([]kept, len(rows))
	for i, r := range rows {
		list[i] = kept{r.Scope, r.Key, hex.EncodeToString(r.Nonce)}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // cannot fail: the values are strings
	}
	return string(text)
}
