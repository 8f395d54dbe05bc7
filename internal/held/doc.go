// Package held is how the owner of a record keeps it: leases and sagas share it.
//
// An owner writes under a fence, which each of its writes raises by one, and under a nonce of its own: a write applies only to the
// record that the write before it has left. So each write is applied at most once, also if another owner has taken the record over meanwhile, and
// however often it is sent. A heart renews the leases of all owners of a process.
//
// # How a lost commit is settled
//
// The answer to a COMMIT is lost, and nothing else proves whether it was applied. There are three cases.
//
//   - A transaction that claims by itself, without a record (package once): its claim is tried again. The claim excludes that
//     transaction, so that a claim which can be had proves that the COMMIT is over: a record with its nonce says that it was applied, no
//     record that it was not. The handler may run again.
//   - A change of a record alone, by its owner ([Owner.Swap]): the same change is sent again, under the same fence. If it was applied,
//     the conflicting record is the one that it writes, by fence and nonce. If it was not, it is now. The first one cannot be
//     applied after that, because the fence that it expects is gone. If no answer comes in [SettleTime], a change may still be on its way,
//     and its owner writes nothing more.
//   - A change that commits together with other writes, by its owner ([Owner.IsApplied]): the record is read. If it has the next fence and the
//     owner's nonce, all of it was applied. If it has not, the COMMIT may still be on its way, so the whole transaction runs again under
//     the same fence: at most one of the two is applied. To send the record alone again would apply it without its writes.
//
// An owner that takes over can do neither harm: it raises the fence first.
package held
