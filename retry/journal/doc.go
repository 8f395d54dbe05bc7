// Package journal keeps what a client is about to ask for until it knows what became of
// it, so that a client that was killed asks again with the same idempotency key.
//
//	intents, err := journal.Open("/var/lib/app/intents", journal.Config{})
//	...
//	client := &http.Client{Transport: &retryhttp.Transport{Journal: intents}}
//
//	// when the program starts, and now and then:
//	journal.Resume(ctx, intents, client, journal.Options{
//		Prepare: func(r *http.Request, _ journal.Intent) error {
//			if r.URL.Host == "api.example" { // secrets are not in the journal
//				r.Header.Set("Authorization", token())
//			}
//			return nil
//		},
//	})
//
// A journal is a [File] of one process, or a [Table] in a database, where an intent commits
// with the business write that makes it necessary.
//
// # What is promised
//
// A request with an idempotency key of its caller leaves only when its intent (method, URL,
// key, body, and those headers that are no secrets) is on the disk. It is open from then
// on, and closed by a definite outcome:
//
//	answered    by a 2xx, by a refusal of the operation itself, by an answer that says that
//	            it is stored or replayed (Idempotency-Status, Idempotent-Replayed)
//	untouched   no attempt can have had an effect: no connection, or a mere 4xx
//	resolved    a person has said what became of it
//
// All else leaves it open: no answer, a cut one, a 5xx, a redirect (to a login page, say;
// whether it is followed or not), a 4xx such as 401 after a redirect or an attempt that may
// have been executed. A 307 or 308 that is followed leads to the answer. Whatever the
// caller was told, an open intent may take effect later, by [Resume] or by another request
// with the same key; do not start anew with another key while it is open.
//
// An intent that was answered is closed when the caller closes the body of the answer, and
// not before: what is done with an answer until then is done again after a crash.
//
// A key that has expired (the retention is over, or the server has said so) is not sent
// again: the intent is held for a person, who finds out what became of it and says so with
// "once journal resolve".
//
// # The file
//
// A [File] belongs to one process; another one is refused. The lock is on the file itself,
// and ends with its process, as unix systems have it: where there is none, as on Windows,
// [Open] refuses; use a [Table] there. A symbolic link is refused. A
// journal whose file was removed, or replaced, takes no more intents. It is only appended to, with
// one flush to the disk for all intents that come at the same time, and written anew when
// much of it is done with. A record that a crash has torn is left out when the file is
// opened, and [File.Damage] tells; damage in what had been flushed is refused. If the disk
// is full the request is not sent, and may be when there is room again. After a failed
// flush the journal refuses everything until it is opened again, which writes all of it
// to new blocks.
//
// What was flushed last is known by a flush frame of 20 bytes behind it. Only if that is gone
// as well, because the power has failed before the system wrote it to the disk, or because
// it is damaged too, is damage there taken for a record that was torn: the intent is left
// out, and [File.Damage] tells. The same is true of a file that has lost its end.
//
// A File keeps what is open in memory, and takes no more than Config.MaxOpen intents of
// Config.MaxBytes: beyond, the request is not sent, and the error is [ErrFull].
//
// Bodies and URLs are written as they are, but for a user and password in front of the
// host. The file can be read by its owner only.
package journal
