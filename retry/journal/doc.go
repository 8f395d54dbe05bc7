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
// A journal is either a [File], which one process uses, or a [Table] in a database. An intent is a stored request. In a Table, an intent can be
// committed in the same transaction as the business write that makes the request necessary.
//
// # Promises
//
// The promises of this package apply to requests with an idempotency key that the caller has set. A request with a key of the caller is sent only
// after its intent (method, URL, key, body, and headers without secrets) is on the disk. An intent is open until its outcome is answered,
// untouched or resolved:
//
//	answered    a 2xx, a refusal of the operation itself, or an answer whose header says that
//	            the answer is stored or replayed (Idempotency-Status, Idempotent-Replayed)
//	untouched   no attempt can have had an effect: no connection was made, or the only answers were 4xx
//	resolved    an operator has found out the outcome
//
// After no answer, an incomplete answer, a 5xx, or a redirect (for example to a login page), the intent stays open. After a 4xx such as 401, the
// intent stays open in three cases: the 4xx follows a redirect, an earlier attempt may have been executed, or a copy of the request (see
// Transport.Hedge) has no answer yet. If the client follows a redirect with the status 307 or 308, only the answer of the last target decides
// whether the intent is closed. An open intent may take effect later, even if the caller got an answer, because [Resume] or another request with
// the same key sends the intent again. Do not use another key for the same operation while its intent is open.
//
// An answered intent is closed when the caller closes the body of the answer, and not before. So if the process crashes while it handles the
// answer, the next process sends the request again and handles the answer again. An answer is incomplete if a Read of its body has returned an
// error other than io.EOF, for example because the connection broke or the context ended. An intent with an incomplete answer stays open when
// the caller closes the body. If no Read has returned an error, and the caller closes the body before its end, the intent is closed, because
// the caller does not need the rest of the answer.
//
// The client does not send a request with an expired key again. A key expires when its retention has passed, or when the server answers that the
// key is too old. The journal holds an intent with an expired key for an operator. The operator finds out the outcome, and closes the intent
// with the command "once journal resolve".
//
// # The file
//
// Only one process at a time can use a [File]: in a second process [Open] fails. On Unix systems the process holds a lock on the file, and the
// lock ends when the process ends. On systems without locks on files, such as Windows, Open fails; use a [Table] on such a system. If the path is
// a symbolic link, Open fails. If the file is removed or replaced, the journal accepts no further intents.
//
// The journal appends new records to the file, and concurrent intents share one flush to the disk. The journal rewrites the file when a large
// part of the file is obsolete. If a crash has left an incomplete record at the end of the file, Open drops this record, and [File.Damage]
// reports the dropped part of the file. If flushed records are damaged, Open fails. If the disk is full, the request is not sent; later requests
// can be sent when the disk has room again. After a failed flush the journal refuses all further calls until the program opens the journal
// again. When the journal is opened, Open writes all records to new blocks of the disk.
//
// After each flush, the journal writes a flush frame of 20 bytes, which marks the end of the flushed records. A flush frame may be lost or
// damaged, for example if the power fails before the system has written the flush frame to the disk. Without the flush frame, Open does not know
// whether the last batch of records is damaged or incomplete. So Open drops the damaged or incomplete part with its intents, and [File.Damage]
// reports the dropped part. Open and File.Damage treat a file whose end is missing in the same way.
//
// A File keeps the open intents in memory: at most Config.MaxOpen intents, with at most Config.MaxBytes bytes together. If the File is full, a
// further request is not sent, and fails with [ErrFull].
//
// Bodies and URLs are stored unencrypted. Only the user and password in a URL are removed. Only the owner of the file can read the file (mode
// 0600).
package journal
