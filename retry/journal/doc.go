// Package journal keeps the requests of a client until their outcome is known, so that a client that was killed sends them again with the same
// idempotency key.
//
//	intents, err := journal.Open("/var/lib/app/intents", journal.Config{})
//	...
//	client := &http.Client{Transport: &retryhttp.Transport{Journal: intents}}
//
//	// when the program starts, and from time to time:
//	journal.Resume(ctx, intents, client, journal.Options{
//		Prepare: func(r *http.Request, _ journal.Intent) error {
//			if r.URL.Host == "api.example" { // the journal has no secrets
//				r.Header.Set("Authorization", token())
//			}
//			return nil
//		},
//	})
//
// A journal is a [File] of one process, or a [Table] in a database, where an intent commits with the business write that makes it necessary.
//
// # Promises
//
// A request with an idempotency key of its caller is sent only after its intent (method, URL, key, body, and headers without secrets) is on the disk.
// From then on the intent is open, until a definite outcome closes it:
//
//	answered    by a 2xx, by a refusal of the operation itself, by an answer that says that
//	            it is stored or replayed (Idempotency-Status, Idempotent-Replayed)
//	untouched   no attempt can have had an effect: no connection, or a mere 4xx
//	resolved    a person has decided about its outcome
//
// Any other outcome leaves it open: no answer, a cut one, a 5xx, a redirect (for example to a login page, followed or not), a 4xx such as 401 after a
// redirect or after an attempt that may have been executed. A 307 or 308 that is followed leads to the answer. An open intent may take effect later,
// whatever answer the caller got: by [Resume], or by another request with the same key. Do not use another key for the same operation while it is
// open.
//
// An answered intent is closed when the caller closes the body of the answer, and not before: after a crash, the caller's work on the answer is
// repeated.
//
// An expired key (the retention is over, or the server has said so) is not sent again: the intent is held for a person, who finds out its outcome and
// reports it with "once journal resolve".
//
// # The file
//
// A [File] belongs to one process; another one is refused. The lock is on the file itself, and ends with its process, as on unix systems. On systems
// without such locks, as on Windows, [Open] fails; use a [Table] there. A symbolic link is refused. A journal whose file was removed or replaced
// accepts no further intents. New records are appended, with one flush to the disk for all concurrent intents, and the file is written again when
// much of it is obsolete. A record that was torn by a crash is left out when the file is opened, and [File.Damage] reports it; damage in flushed
// records makes Open fail. If the disk is full the request is not sent; a later one may be when the disk has room again. After a failed flush the
// journal refuses everything until it is opened again, which writes all of it to new blocks.
//
// After each flush a flush frame of 20 bytes is written, which marks the end of the flushed records. If that frame is lost as well, because the power
// has failed before the system wrote it to the disk, or because it is damaged too, then damage in the last batch looks like a torn record: the intent
// is left out, and [File.Damage] reports it. The same happens if a file has lost its end.
//
// A File keeps the open intents in memory, and accepts at most Config.MaxOpen intents of Config.MaxBytes. A further request is not sent, and the
// error is [ErrFull].
//
// Bodies and URLs are written as they are, except for a user and password before the host. The file can be read by its owner only.
package journal
