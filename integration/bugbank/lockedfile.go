package bugbank

// lockedfileMutants are bugs of package internal/base/lockedfile.
var lockedfileMutants = []Mutant{
	{
		Name:  "a file that was replaced before it was locked is taken",
		Edits: []Edit{{In: "lockedfile.Open", Old: "err == nil && current", New: "err == nil && (current || f != nil)"}},
		Tests: in("internal/base/lockedfile", "TestOneOwnerAtATime"),
	},
	{
		Name:  "a symbolic link is followed",
		Edits: []Edit{{In: "lockedfile.Open", Old: "os.O_RDWR|os.O_CREATE|noFollow", New: "os.O_RDWR|os.O_CREATE"}},
		Tests: []Killer{{Module: ".", Package: "internal/base/lockedfile", Test: "TestOpenNeverFollowsALinkOrTruncates", Hangs: true}},
	},
	{
		Name:  "the file that compaction writes is not locked",
		Edits: []Edit{{In: "lockedfile.Create", Old: "if err := lock(f); err != nil {", New: "if err := error(nil); err != nil {"}},
		Tests: in("retry/journal", "TestNoSecondOwner"),
	},
	{
		Name:  "two processes write one journal",
		Edits: []Edit{{In: "lockedfile.lock", Old: "syscall.LOCK_EX|syscall.LOCK_NB", New: "syscall.LOCK_SH|syscall.LOCK_NB"}},
		Tests: in("retry/journal", "TestTwoOwnersAreRefused"),
	},
}
