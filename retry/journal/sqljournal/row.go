package sqljournal

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/oncelib/once/retry/journal"
)

// exec reports whether a statement has changed anything.
func (j *Journal) exec(ctx context.Context, query string, args ...any) (bool, error) {
	r, err := j.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// read returns intents, and how many calls have begun each.
func (j *Journal) read(ctx context.Context, where string, args ...any) (list []journal.Intent, calls []int64, err error) {
	rows, err := j.db.QueryContext(ctx, j.text("select id, key, method, url, header, body, since, expires, held, calls from once_intent"+where), args...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var in journal.Intent
		var header []byte
		var since, expires, n int64
		if err := rows.Scan(&in.ID, &in.Key, &in.Method, &in.URL, &header, &in.Body, &since, &expires, &in.Held, &n); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(header, &in.Header); err != nil {
			return nil, nil, err
		}
		in.Since = time.UnixMilli(since).UTC()
		if expires > 0 {
			in.Expires = time.UnixMilli(expires).UTC()
		}
		list, calls = append(list, in), append(calls, n)
	}
	return list, calls, rows.Err()
}
