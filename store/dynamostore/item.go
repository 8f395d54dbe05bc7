package dynamostore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// item is an item of DynamoDB. A field of a record that is empty has no attribute.
type item = map[string]types.AttributeValue

// attributes are the attributes of a record except id and since, which do not change while the record exists.
var attributes = []string{
	"state", "fingerprint", "kind", "status", "header", "body", "nonce", "request", "trace", "name",
	"fence", "lease", "point", "calling", "data", "until", "part", "due",
}

// kept holds the attributes that Change.KeepRequest leaves unchanged.
var kept = map[string]bool{"fingerprint": true, "request": true, "trace": true, "name": true}

// The index has two kinds of entries. Each kind is split into parts, because one part of an index takes a thousand writes a second.
const (
	index      = "once_due"
	unfinished = "u" // an operation that is not done; its due is its scope and key
	finite     = "d" // a done operation that expires; its due is the time of that
	parts      = 16
)

var errForeign = errors.New("dynamostore: the scope or the key is not valid UTF-8, or contains a zero byte")

// idOf returns the id of an operation, or an error if its scope or key cannot be stored.
func idOf(id store.ID) (string, error) {
	if t := id.Scope + id.Key; !utf8.ValidString(id.Scope) || !utf8.ValidString(id.Key) || strings.Contains(t, "\x00") {
		return "", &store.Error{Kind: store.KindOther, Err: errForeign}
	}
	// The length of the scope keeps two ids apart whose scope and key join to the same text.
	return strconv.Itoa(len(id.Scope)) + ":" + id.Scope + ":" + id.Key, nil
}

// operationOf returns the operation of an item. It reverses idOf.
func operationOf(it item) (id store.ID, err error) {
	length, rest, _ := strings.Cut(textOf(it, "id"), ":")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n+1 > len(rest) {
		return id, &store.Error{Kind: store.KindOther, Err: fmt.Errorf("dynamostore: the table has an item with the id %q that the library \"once\" has not written", textOf(it, "id"))}
	}
	return store.ID{Scope: rest[:n], Key: rest[n+1:]}, nil
}

// orderOf returns the bytes that order operations by scope and key.
func orderOf(id store.ID) []byte { return []byte(id.Scope + "\x00" + id.Key) }

// orderOfTime returns the bytes that order times.
func orderOfTime(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(max(t.UnixMicro(), 0)))
}

// partOf returns the part of the index for an operation. The hash spreads the writes over all parts.
func partOf(kind, id string) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	return kind + strconv.Itoa(int(h.Sum32()%parts))
}

// itemOf returns the item of the record that c writes.
func itemOf(c *store.Change, id string, now time.Time) item {
	r := &c.Next
	it := item{"id": text(id), "since": micros(now), "state": number(int64(r.State)), "fence": number(r.Fence)}
	for name, n := range map[string]int{"kind": int(r.Result.Kind), "status": r.Result.Status} {
		if n != 0 {
			it[name] = number(int64(n))
		}
	}
	for name, s := range map[string]string{"trace": r.Trace, "name": r.Name, "point": r.RecoveryPoint} {
		if s != "" {
			it[name] = text(s)
		}
	}
	for name, b := range map[string][]byte{
		"fingerprint": r.Fingerprint, "header": head.Encode(&r.Result), "body": r.Result.Body, "nonce": r.Nonce, "request": r.Request, "data": r.Data,
	} {
		if len(b) > 0 {
			it[name] = &types.AttributeValueMemberB{Value: b}
		}
	}
	if r.CallStarted {
		it["calling"] = &types.AttributeValueMemberBOOL{Value: true}
	}
	if r.State == store.StateRunning && c.Lease > 0 {
		it["lease"] = micros(now.Add(c.Lease))
	}
	switch {
	// Exactly one of the two kinds of entries, or none: a record that is kept for ever is in no index.
	case r.State != store.StateDone:
		it["part"], it["due"] = text(partOf(unfinished, id)), &types.AttributeValueMemberB{Value: orderOf(c.ID)}
	case c.Retain > 0 && c.Retain != store.Forever:
		until := now.Add(c.Retain)
		it["until"] = micros(until)
		it["part"], it["due"] = text(partOf(finite, id)), &types.AttributeValueMemberB{Value: orderOfTime(until)}
	}
	return it
}

// recordOf returns the record of an item at the time now of the service.
func recordOf(it item, now time.Time) (r store.Record, err error) {
	if it == nil {
		return r, nil
	}
	// An expired record keeps its nonce, so that a writer whose answer was lost still recognises its record.
	r.Nonce = bytesOf(it, "nonce")
	if expired(it, now) {
		return r, nil
	}
	r.State, r.Fence, r.Since = store.State(numberOf(it, "state")), numberOf(it, "fence"), timeOf(it, "since")
	r.Fingerprint, r.Request, r.Data = bytesOf(it, "fingerprint"), bytesOf(it, "request"), bytesOf(it, "data")
	r.Trace, r.Name, r.RecoveryPoint = textOf(it, "trace"), textOf(it, "name"), textOf(it, "point")
	_, r.CallStarted = it["calling"]
	if _, leased := it["lease"]; leased && r.State == store.StateRunning {
		r.LeaseExpired = !now.Before(timeOf(it, "lease"))
	}
	r.Result = store.Result{Kind: store.ResultKind(numberOf(it, "kind")), Status: int(numberOf(it, "status")), Body: bytesOf(it, "body")}
	if err := head.Decode(bytesOf(it, "header"), &r.Result); err != nil {
		return r, &store.Error{Kind: store.KindOther, Err: err}
	}
	return r, nil
}

// expired reports whether the retention of an item is over. The item itself may exist for longer.
func expired(it item, now time.Time) bool {
	_, ends := it["until"]
	return ends && !now.Before(timeOf(it, "until"))
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func micros(t time.Time) types.AttributeValue { return number(t.UnixMicro()) }

func textOf(it item, name string) string {
	if v, ok := it[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

func bytesOf(it item, name string) []byte {
	if v, ok := it[name].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

func numberOf(it item, name string) int64 {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, _ := strconv.ParseInt(v.Value, 10, 64)
	return n
}

func timeOf(it item, name string) time.Time { return time.UnixMicro(numberOf(it, name)) }
