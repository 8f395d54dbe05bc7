// Package deadletter is for operators who decide about dead letters: messages that could not be handled. Operators
// can list dead letters by cause, show a dead letter with every failed delivery, redrive dead letters (make them
// due for another try), and discard dead letters. The command "once deadletter" uses this package.
//
//	letters := deadletter.New(s, deadletter.Config{}) // s is the SQL store of the engine
//	groups, err := letters.Groups(ctx, deadletter.Filter{})
//	...
//	redrive, err := letters.Redrive(ctx, deadletter.Filter{Cause: groups[0].Cause}, deadletter.RedriveOptions{
//		Who: "ada", Reason: "order service is repaired", Canary: true, Rate: 50,
//	})
//
// An inbox writes a dead letter for a message that the inbox will not try again. A relay of an outbox writes
// dead letters if RelayConfig.DeadLetters is set. A redrive only sets the times at which letters are due. When a
// letter is due, the processes that handle the messages try the message of the letter again, with the same
// message ID. A redrive may be repeated, may run twice at the same time, and may be killed: no letter is applied
// twice.
//
// Each call that changes letters also writes an entry to the audit table once_audit. The change and
// the entry are committed together. If the database fails, the error is a [*store.Error].
//
// [*store.Error]: https://pkg.go.dev/github.com/oncelib/once/store#Error
package deadletter
