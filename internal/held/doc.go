// Package held contains the rules by which the owner of a record keeps it. Leases and sagas share the package.
//
// An owner writes under a fence and under its own nonce. Each of its writes increases the fence by one. A write applies only to
// the record that the previous write has left. So each write is applied at most once, even if another owner has taken the
// record over, and however often it is sent. A heart renews the leases of all owners of a process.
//
// # How a lost commit is settled
//
// If the answer to a COMMIT is lost, nothing else proves whether the COMMIT was applied. There are three cases.
//
//   - A transaction that claims by itself, without a record (package once): the engine tries the claim again. The claim
//     excludes the lost transaction, so a granted claim proves that the COMMIT has ended. A record with the nonce of the
//     call says that the COMMIT was applied. No record says that it was not. Then the handler may run again.
//   - A change of only a record, by its owner ([Owner.Swap]): the owner sends the same change again, under the same fence. If
//     the first change was applied, the conflicting record has the fence and the nonce of the change. If it was not, the
//     second change is applied, and the first can never be applied: the fence that it expects is gone. If no answer comes in
//     [SettleTime], a change may still arrive, and its owner writes nothing more.
//   - A change that commits together with other writes, by its owner ([Owner.IsApplied]): the owner reads the record. If the
//     record has the next fence and the nonce of the owner, all writes were applied. Otherwise the COMMIT may still arrive, so
//     the whole transaction runs again under the same fence: at most one of the two is applied. If the owner sent only the
//     record again, the record would be applied without the other writes.
//
// An owner that takes the record over does no harm in any of these cases, because it increases the fence first.
package held
