// Package journal stores the requests of a client until their outcome is known. If the process of the client is killed, the next process sends
// the open requests (requests without a known outcome) again, with the same idempotency keys.
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
// A journal is a [File] that one process uses, or a [Table] in a database. An intent is a stored request. In a Table, an intent can be committed in
// the same transaction as the business write that makes the request necessary.
//
// # Promises
//
// The promises of this package apply to requests with an idempotency key that the caller has set. A request with a key of the caller is sent only
// after its intent (method, URL, key, body, and headers without secrets) is on the disk. The intent is open until one of these outcomes closes it:
//
//	answered    a 2xx, a refusal of the operation itself, or an answer whose header says that
//	            it is stored or replayed (Idempotency-Status, Idempotent-Replayed)
//	untouched   no attempt can have had an effect: no connection was made, or the only answers were 4xx
//	resolved    an operator has found out its outcome
//
// Any other outcome leaves the intent open: no answer, an incomplete answer, a 5xx, or a redirect (for example to a login page). A 4xx such as
// 401 leaves the intent open if it follows a redirect or an attempt that may have been executed, or if a copy of the request (Transport.Hedge)
// has no answer yet. If the client follows a 307 or 308, only the answer of the last target counts. An open intent may take effect later, even if
// the caller got an answer, because [Resume] or another request with the same key sends the intent again. Do not use another key for the same
// operation while its intent is open.
//
// An answered intent is closed when the caller closes the body of the answer, and not before. So if the process crashes while it handles the
// answer, the next process sends the request again and handles the answer again. An answer is incomplete if a Read of its body has returned an
// error other than io.EOF, for example because the connection broke or the context ended. The intent then stays open when the caller closes the
// body. If the caller closes the body before its end, and no Read has returned an error, the intent is closed, because the caller needs no more
// of the answer.
//
// The client does not send a request with an expired key again. A key expires when its retention has passed, or when the server answers that the
// key is too old. The journal holds an intent with an expired key for an operator. The operator finds out the outcome, and closes the intent
// with the command "once journal resolve".
//
// # The file
//
// A [File] belongs to one process; [Open] fails in a second process. On Unix systems the process holds a lock on the file, and the lock ends when
// the process ends. On systems without such locks, such as Windows, Open fails; use a [Table] on these systems. A symbolic link is refused. If the
// file is removed or replaced, the journal accepts no further intents.
//
// The journal appends new records to the file, and concurrent intents share one flush to the disk. The journal rewrites the file when a large
// part of the file is obsolete. If a crash has left an incomplete record at the end, Open drops this record, and [File.Damage] reports the
// dropped part of the file. If flushed records are damaged, Open fails. If the disk is full, the request is not sent; later requests can be sent
// when the disk has room again. After a failed flush the journal refuses all further calls until it is opened again. When the journal is opened,
// Open writes all records to new blocks of the disk.
//
// After each flush, the journal writes a flush frame of 20 bytes, which marks the end of the flushed records. The flush frame itself may be lost
// or damaged, for example if the power fails before the system has written the frame to the disk. Without the flush frame, Open cannot
// distinguish damage in the last batch of records from an incomplete record. So Open drops the damaged part with its intents, and [File.Damage]
// reports this part. Open and File.Damage treat a file whose end is missing in the same way.
//
// A File keeps the open intents in memory: at most Config.MaxOpen intents, with at most Config.MaxBytes bytes together. If the File is full, a
// further request is not sent, and its error is [ErrFull].
//
// Bodies and URLs are stored unencrypted. Only the user and password in a URL are removed. Only the owner of the file can read it (mode 0600).
package journal
