package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

var errForeign = errors.New("redisstore: the scope or the key contains a zero byte")

// member returns the name of an operation. Names sort by the bytes of scope and key.
func member(id store.ID) (string, error) {
	if strings.Contains(id.Scope, "\x00") || strings.Contains(id.Key, "\x00") {
		return "", &store.Error{Kind: store.KindOther, Err: errForeign}
	}
	return id.Scope + "\x00" + id.Key, nil
}

// The names of keys, without the prefix.
const recordKey, unfinishedKey, syncKey = "op:", "unfinished", "sync"

// fieldsOf returns the fields of a record and their values, without empty fields. The script itself sets state, since, lease and until.
func fieldsOf(c *store.Change) (fields []any) {
	r := c.Next
	if c.KeepRequest {
		r.Fingerprint, r.Request, r.Trace, r.Name = nil, nil, "", ""
	}
	for _, f := range [...]struct{ name, value string }{
		{"fence", number(r.Fence)}, {"nonce", string(r.Nonce)}, {"fingerprint", string(r.Fingerprint)}, {"request", string(r.Request)},
		{"trace", r.Trace}, {"name", r.Name}, {"point", r.RecoveryPoint}, {"calling", flag(r.CallStarted)}, {"data", string(r.Data)},
		{"kind", number(int64(r.Result.Kind))}, {"status", number(int64(r.Result.Status))}, {"header", string(head.Encode(&r.Result))}, {"body", string(r.Result.Body)},
	} {
		if f.value != "" {
			fields = append(fields, f.name, f.value)
		}
	}
	return fields
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// recordOf returns the record of the fields f at the time at of the server.
func recordOf(f map[string]string, at any) (r store.Record, err error) {
	number := func(text string) (n int64) {
		if text != "" && err == nil {
			n, err = strconv.ParseInt(text, 10, 64)
		}
		return n
	}
	now := number(fmt.Sprint(at))
	r.Nonce = []byte(f["nonce"])
	// An expired record keeps its nonce, so that a writer whose answer was lost still recognises its record.
	if f["state"] != "" && (f["until"] == "" || now < number(f["until"])) {
		r.State, r.Fence, r.Since = store.State(number(f["state"])), number(f["fence"]), time.UnixMicro(number(f["since"]))
		r.Fingerprint, r.Request, r.Data = []byte(f["fingerprint"]), []byte(f["request"]), []byte(f["data"])
		r.Trace, r.Name, r.RecoveryPoint, r.CallStarted = f["trace"], f["name"], f["point"], f["calling"] != ""
		r.LeaseExpired = f["lease"] != "" && r.State == store.StateRunning && now >= number(f["lease"])
		r.Result = store.Result{Kind: store.ResultKind(number(f["kind"])), Status: int(number(f["status"])), Body: []byte(f["body"])}
		err = cmp.Or(err, head.Decode([]byte(f["header"]), &r.Result))
	}
	if err != nil {
		err = &store.Error{Kind: store.KindOther, Err: fmt.Errorf("redisstore: a stored record cannot be read: %w", err)}
	}
	return r, err
}

// pairsOf returns a map of an answer that alternates names and values, as HGETALL does.
func pairsOf(answer any) map[string]string {
	list, _ := answer.([]any)
	f := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		f[name], _ = list[i+1].(string)
	}
	return f
}
