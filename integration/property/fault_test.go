package property

import "github.com/oncelib/once/store/storetest"

// fault is a point of [storetest.Faults], or one of those that only happen here.
type fault string

const (
	none         fault = ""
	beginGhost   fault = "begin: granted, but the answer is lost"
	beginStale   fault = "begin: the look-up is older than the claim"
	commitLate   fault = "commit: answer lost, still on its way"
	rollbackLate fault = "rollback: connection lost, not noticed yet"
	swapLate     fault = "swap: answer lost, still on its way"
)

func (f fault) own() bool {
	switch f {
	case none, beginGhost, beginStale, commitLate, rollbackLate, swapLate:
		return true
	}
	return false
}

// faults are what can happen at each place.
var faults = map[place][]fault{
	atRead:  {fault(storetest.ReadDown)},
	atBegin: {fault(storetest.BeginDown), fault(storetest.BeginRetry), beginGhost, beginStale},
	atJoin:  {fault(storetest.JoinDown)},
	atCommit: {
		fault(storetest.CommitDown), fault(storetest.CommitRetry), fault(storetest.CommitTaken), fault(storetest.CommitTaken),
		fault(storetest.CommitLostUndone), fault(storetest.CommitLostApplied), commitLate, commitLate, commitLate, commitLate,
	},
	atJoined:   {fault(storetest.CommitDown), fault(storetest.CommitRetry), fault(storetest.CommitTaken)},
	atRollback: {fault(storetest.RollbackDown), rollbackLate},
	atSwap: {
		fault(storetest.SwapDown), fault(storetest.SwapRetry), fault(storetest.SwapTaken),
		fault(storetest.SwapLostUndone), fault(storetest.SwapLostApplied), swapLate, swapLate, swapLate, swapLate,
	},
}
