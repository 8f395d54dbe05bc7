package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// ErrDeadLettered is the error of [Do] if the message is a dead letter: the inbox has given the message up, so
// the message has no result. If Do returns ErrDeadLettered, the consumer must acknowledge the message.
var ErrDeadLettered = errors.New("inbox: the inbox has given the message up, and the message is a dead letter. Try: once deadletter list --letters")

// Do is like [Inbox.Handle], but the handler returns a result. Use Do if the caller must answer each delivery
// with the result. A duplicate gets the result of the first delivery, decoded from JSON, as long as the ID of
// the message is kept (Config.Retain). Do requires that Config.Order is [AnyOrder]. If [Inbox.Run] applies a
// dead letter that was redriven (made due for another try), the result is not kept: then a duplicate gets an
// error with the code [once.CodeNoResult]. If Config.Encrypter is set, the stored result is encrypted. If a stored
// result cannot be decrypted, a duplicate also gets an error with the code [once.CodeNoResult].
//
// Acknowledge the message if the error is nil, is [ErrDeadLettered], or has the code [once.CodeNoResult]; after
// any other error the message must be delivered again. Do also returns an error with the code
// [once.CodeNoResult] for a marker, which replaces a skipped message and has no result: see
// [message.TypeSkipped].
func Do[T, TX any](ctx context.Context, in *Inbox[TX], m message.Message, fn func(ctx context.Context, tx TX, m message.Message) (T, error)) (once.Result[T], error) {
	var r once.Result[T]
	if in.cfg.Order != AnyOrder {
		return r, errors.New("inbox: Do stores results, and only an inbox with Config.Order AnyOrder can store results. Try: Config.Order AnyOrder, or Handle instead of Do")
	}
	var value T
	outcome, err := in.Handle(ctx, m, func(ctx context.Context, tx TX, m message.Message) (err error) {
		if value, err = fn(ctx, tx, m); err != nil {
			return err
		}
		result, err := json.Marshal(value)
		if err != nil {
			// Another attempt would return the same value, so the message becomes a dead letter at once.
			return retry.Permanent(fmt.Errorf("the result of the handler cannot be stored: %w", err))
		}
		if result, err = in.sealResult(&m, result); err != nil {
			return err
		}
		// The result is written in the transaction of the handler, so it is stored exactly if the message is applied.
		return in.db.On(tx).Append(ctx, store.Statement{SQL: in.sql.setResult, Args: []any{result, in.cfg.Consumer, m.Source, m.ID}, Rows: 1})
	})
	switch {
	case err != nil:
		return r, err
	case outcome == Applied:
		r.Value = value
		return r, nil
	case outcome == DeadLettered:
		return r, ErrDeadLettered
	}
	r.Replayed = true
	// Handle has stored the message under the default source, so the look-up must use it too.
	if m.Source == "" {
		m.Source = defaultSource
	}
	k, err := in.find(ctx, in.db.Pool(), &m)
	if err != nil {
		return r, fmt.Errorf("inbox: the stored result of message %s cannot be read: %w", m.ID, err)
	}
	if k == nil { // Handle has seen the row; a replica may lag, or a sweep may have deleted the row since then
		return r, fmt.Errorf("inbox: the result of message %s cannot be read now. Try: call Do again", m.ID)
	}
	err = errors.New("the message was applied before, and its result was not stored")
	if k.result != nil {
		var result []byte
		if result, err = in.openResult(&m, k.result); err == nil {
			err = json.Unmarshal(result, &r.Value)
		}
	}
	if err != nil {
		// The effect of the message exists, so the caller must not try again.
		return r, &once.Error{Code: once.CodeNoResult, Effect: once.EffectApplied, Scope: in.op.Name, Key: m.ID, Err: err}
	}
	return r, nil
}

// sealedResult is the first byte of a stored result that is encrypted. Results in plain text are JSON, which never
// begins with this byte. An inbox without an Encrypter, and an earlier version of this program, store plain text.
const sealedResult = 0

// sealResult returns the stored form of a result, which may be encrypted.
func (in *Inbox[TX]) sealResult(m *message.Message, result []byte) ([]byte, error) {
	if in.cfg.Encrypter == nil {
		return result, nil
	}
	sealed, err := in.cfg.Encrypter.Encrypt(result, []byte(in.label(m)+"result"))
	if err != nil {
		return nil, fmt.Errorf("inbox: the result of message %s cannot be encrypted for storage: %w", m.ID, err)
	}
	return append([]byte{sealedResult}, sealed...), nil
}

// openResult returns the result that sealResult has stored.
func (in *Inbox[TX]) openResult(m *message.Message, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != sealedResult {
		return stored, nil
	}
	if in.cfg.Encrypter == nil {
		return nil, errors.New("the message was applied before, and its result is encrypted, but Config.Encrypter is not set. Try: set the Encrypter with the key under which the result was stored, and call Do again")
	}
	result, err := in.cfg.Encrypter.Decrypt(stored[1:], []byte(in.label(m)+"result"))
	if err != nil {
		return nil, fmt.Errorf("the message was applied before, and its stored result cannot be decrypted: %w. Try: set the Encrypter with the key under which the result was stored, and call Do again", err)
	}
	return result, nil
}
