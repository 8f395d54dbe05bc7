// Package deadletter is for operators of messages that could not be handled: list them by cause, show
// one with every failed delivery, have them tried again, give them up. The command once deadletter uses it.
//
//	letters := deadletter.New(s, deadletter.Config{}) // s is the SQL store of the engine
//	groups, err := letters.Groups(ctx, deadletter.Filter{})
//	...
//	redrive, err := letters.Redrive(ctx, deadletter.Filter{Cause: groups[0].Cause}, deadletter.RedriveOptions{
//		Who: "ada", Reason: "order service is repaired", Canary: true, Rate: 50,
//	})
//
// An inbox writes a letter when it gives a message up, and a relay does with RelayConfig.DeadLetters.
// A redrive only says when letters are due: the processes that handle messages try them again, with the same message ID.
// It can be repeated, run twice at once, and be killed: no letter is applied twice.
//
// Everything that is changed is written to the audit in the same commit. Errors of the database are a [*store.Error].
//
// [*store.Error]: https://pkg.go.dev/github.com/oncelib/once/store#Error
package deadletter
