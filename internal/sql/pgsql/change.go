package pgsql

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/oncelib/once/store"
)

// The Swap statements write any Change. If the record is not the expected one, they fail by a division by zero or on the primary
// key.
const (
	// SwapInsert takes the lock of the claim in shared mode. The lock excludes open transactions that hold the claim, but not
	// another SwapInsert; the primary key decides between two of these. An existing record excludes such transactions by
	// itself, so the other Swap statements need no lock.
	//
	// $3 is LockID. $4 to $17 are the record. $18 and $19 are its lease and retention in milliseconds.
	SwapInsert = `insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, trace, name, point, calling, data, lease_until, expires_at)
 values ($1, $2, $4 / pg_try_advisory_xact_lock_shared($3)::int, $5, $6, $7, $8, $9, $10, $11, $12, nullif($13, ''), nullif($14, ''), $15, $16, $17,
 clock_timestamp() + $18 * interval '1 ms', clock_timestamp() + $19 * interval '1 ms')`

	// SwapInsertSame combines SameTransaction and SwapInsert in one statement: see SwapKeepSame. $20 is the start of the
	// transaction.
	SwapInsertSame = `insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, trace, name, point, calling, data, lease_until, expires_at)
 values ($1, $2, case when now() <> $20 then 2147483647 + (now() <> $20)::int else $4 / pg_try_advisory_xact_lock_shared($3)::int end,
 $5, $6, $7, $8, $9, $10, $11, $12, nullif($13, ''), nullif($14, ''), $15, $16, $17,
 clock_timestamp() + $18 * interval '1 ms', clock_timestamp() + $19 * interval '1 ms')`

	// SwapUpdate has the record in $3 to $16, its times in $17 and $18, and the expectation in $19 to $21: the fence, whether the
	// lease must be over, and the nonce.
	SwapUpdate = `with u as (update once_operation set state = $3, fence = $4, claim = $5, fingerprint = $6, status = $7, kind = $8, head = $9, body = $10,
 request = $11, trace = nullif($12, ''), name = nullif($13, ''), point = $14, calling = $15, data = $16,
 lease_until = clock_timestamp() + $17 * interval '1 ms', expires_at = clock_timestamp() + $18 * interval '1 ms'
 where scope = $1 and key = $2 and state <> 2 and fence = $19 and (not $20 or (state = 1 and lease_until <= clock_timestamp()))
 and (coalesce(length($21::bytea), 0) = 0 or claim = $21) returning 1) select 1 / count(*)::int from u`

	// SwapKeep is SwapUpdate for Change.KeepRequest: it does not change the fingerprint, the request, the trace and the name. The
	// record is in $3 to $12, its times in $13 and $14, and the expectation in $15 to $17.
	SwapKeep = swapKeep + `select 1 / count(*)::int from u`

	// SwapKeepSame combines SameTransaction and SwapKeep in one statement. If the transaction did not begin at $18, the
	// statement fails with a number that is too large, whatever the record is. (The planner would compute a sum of constants
	// in advance, and the statement would always fail.)
	SwapKeepSame = swapKeep + `select case when now() <> $18 then 2147483647 + (1 + count(*)::int) else 1 / count(*)::int end from u`

	swapKeep = `with u as (update once_operation set state = $3, fence = $4, claim = $5, status = $6, kind = $7, head = $8, body = $9,
 point = $10, calling = $11, data = $12,
 lease_until = clock_timestamp() + $13 * interval '1 ms', expires_at = clock_timestamp() + $14 * interval '1 ms'
 where scope = $1 and key = $2 and state <> 2 and fence = $15 and (not $16 or (state = 1 and lease_until <= clock_timestamp()))
 and (coalesce(length($17::bytea), 0) = 0 or claim = $17) returning 1) `

	// SwapDelete has the expectation in $3 to $5.
	SwapDelete = `with u as (delete from once_operation
 where scope = $1 and key = $2 and state <> 2 and fence = $3 and (not $4 or (state = 1 and lease_until <= clock_timestamp()))
 and (coalesce(length($5::bytea), 0) = 0 or claim = $5) returning 1) select 1 / count(*)::int from u`
)

const (
	// Held locks the rows of the leases in $1 (see [Holds]) until the transaction ends, in the order of their keys. It divides by
	// zero unless each of the $2 leases is still held.
	//
	// The lock is FOR SHARE, because FOR KEY SHARE would allow a takeover.
	Held = `with held as (` + heldRows + ` for share of o) select 1 / (count(*) = $2)::int from held`

	// Renew extends the leases in $1 to $2 milliseconds from now. It returns the leases that are still held: scope, key, fence,
	// claim. It must run in a READ COMMITTED transaction.
	Renew = `with held as (` + heldRows + ` for no key update of o)
 update once_operation o set lease_until = clock_timestamp() + $2 * interval '1 ms' from held
 where o.scope = held.scope and o.key = held.key returning o.scope, o.key, o.fence, o.claim`

	// heldRows is sorted, so that transactions that lock several rows do not deadlock. If a row has changed during the wait for its
	// lock, its conditions are checked again.
	heldRows = `select o.scope, o.key from json_to_recordset($1::json) as h(scope text, key text, fence bigint, claim text)
 join once_operation o on o.scope = h.scope and o.key = h.key
 where o.state = 1 and o.fence = h.fence and o.claim = decode(h.claim, 'hex') order by o.scope, o.key`
)

// RenewAtOnce is how many leases one Renew extends. Renew locks all of them, and waits for each lock.
const RenewAtOnce = 100

// Unfinished reads at most $3 operations that are not done, after scope $1 and key $2, by the index
// once_operation_unfinished. It returns the listed ones. If $4 is true, only due operations are listed (see
// [upkeep.Listing]). If $5 is not empty, only operations with this name are listed. If $6 is not 0, only operations in this
// state are listed. It also returns the last operation of a full page. The columns are the scope and the key, whether the
// operation is listed, its number on the page, and the columns of Read, of which the large ones are empty.
// the large ones are empty.
const Unfinished = unfinished + inOrder

// UnfinishedBefore is Unfinished, limited to scopes before $7.
const UnfinishedBefore = unfinished + ` and scope < $7` + inOrder

const unfinished = `select scope, key, listed, n, state, fence, claim, fingerprint, 0::smallint, 0::smallint, null::bytea, null::bytea, null::bytea,
 trace, name, point, calling, null::bytea, coalesce(lease_until <= clock_timestamp(), false), since, false
 from (select *, row_number() over (order by scope, key) as n,
 coalesce((not $4::boolean or state in (3, 4) or lease_until <= clock_timestamp()) and ($5::text = '' or name = $5) and ($6::smallint = 0 or state = $6), false) as listed
 from (select scope, key, state, fence, claim, fingerprint, coalesce(trace, '') as trace, coalesce(name, '') as name, coalesce(point, '') as point, calling, lease_until, since
 from once_operation where state <> 2 and (scope, key) > ($1, $2)`

const inOrder = ` order by scope, key limit $3) as page) as page where listed or n = $3 order by scope, key`

// Holds returns the argument of Held and Renew.
func Holds(holds []store.Hold) string {
	type held struct {
		Scope string `json:"scope"`
		Key   string `json:"key"`
		Fence int64  `json:"fence"`
		Claim string `json:"claim"`
	}
	list := make([]held, len(holds))
	for i, h := range holds {
		list[i] = held{h.ID.Scope, h.ID.Key, h.Fence, hex.EncodeToString(h.Nonce)}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // cannot fail: the values are strings and numbers
	}
	return string(text)
}

// HeldAround returns the leases of c that are locked before its record is written, and the leases that are locked after it. All rows
// are locked in one order, so that two changes which hold each other's operations do not deadlock.
func HeldAround(c store.Change) (before, after []store.Hold) {
	if len(c.Held) == 0 {
		return nil, nil
	}
	all := slices.Clone(c.Held)
	slices.SortFunc(all, func(a, b store.Hold) int { return compareIDs(a.ID, b.ID) })
	n, _ := slices.BinarySearchFunc(all, c.ID, func(h store.Hold, id store.ID) int { return compareIDs(h.ID, id) })
	return all[:n], all[n:]
}

func compareIDs(a, b store.ID) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}

// Take returns the statement of [upkeep.Taker]. Its arguments are the scopes, the keys, the nonce, and the lease in milliseconds.
// The statement then can read the table taken.
func Take(then string) string {
	return `with locked as (select o.scope, o.key from once_operation o join unnest($1::text[], $2::text[]) as those (s, k) on o.scope = those.s and o.key = those.k
 where o.state = 4 for update of o skip locked),
 taken as (update once_operation o set state = 1, fence = o.fence + 1, claim = $3, lease_until = clock_timestamp() + $4 * interval '1 ms'
 from locked l where o.scope = l.scope and o.key = l.key returning o.*),
 then_also as (` + then + `)
 select scope, key, ` + columns + ` from taken`
}
