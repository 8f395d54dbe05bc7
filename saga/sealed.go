package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/store"
)

// With an Encrypter, the runner encrypts the inputs and results of steps, the texts of failures, and the result of the saga. The
// names and states of steps, the codes of failures and the reason of a stuck saga stay readable, because people decide
// without the encryption key.

// secrets contains the encrypted fields of a record. They are encrypted together, so that a field cannot be moved to another step.
type secrets struct {
	Input json.RawMessage   `json:"input,omitempty"`
	Turn  *once.Failure     `json:"turn,omitempty"`
	Steps map[string]secret `json:"steps,omitempty"` // by the full names of the steps
}

// secret contains the encrypted fields of one step.
type secret struct {
	Input   json.RawMessage `json:"input,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *once.Failure   `json:"failure,omitempty"`
}

// label returns a text that binds encrypted data to its saga and its purpose.
func label(id store.ID, what string) []byte {
	return append(seal.Label(id.Scope, id.Key), "\x00"+what...)
}

// seal returns s with its secrets encrypted. If the encryption fails, it returns s without the secrets.
func (s saved) seal(e once.Encrypter, id store.ID) (saved, error) {
	if e == nil {
		return s, nil
	}
	x := secrets{Input: s.Input, Steps: map[string]secret{}}
	s.Input = nil
	if s.Turn != nil {
		cause := s.Turn.Cause
		x.Turn, s.Turn = &cause, &turn{once.Failure{Code: cause.Code}}
	}
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		b := &s.Steps[i]
		x.Steps[b.full()] = secret{b.Input, b.Result, b.Failure}
		b.Input, b.Result = nil, nil
		if b.Failure != nil {
			b.Failure = &once.Failure{Code: b.Failure.Code}
		}
	}
	plain, err := json.Marshal(x)
	if err == nil {
		s.Sealed, err = e.Encrypt(plain, label(id, "secrets"))
	}
	if err != nil {
		return s, fmt.Errorf("saga: the state of the saga cannot be encrypted: %w", err)
	}
	return s, nil
}

var errNoEncrypter = errors.New("the data of the saga is encrypted, and this program has no Encrypter. Try: the Config.Encrypter that the saga had when its data was stored")

// open reverts seal.
func (s saved) open(e once.Encrypter, id store.ID) (saved, error) {
	if s.Sealed == nil {
		return s, nil
	}
	plain, err := decrypt(e, s.Sealed, label(id, "secrets"))
	var x secrets
	if err == nil {
		err = json.Unmarshal(plain, &x)
	}
	if err != nil {
		return s, fmt.Errorf("saga: the stored state of the saga cannot be decrypted: %w", err)
	}
	s.Sealed, s.Input = nil, x.Input
	if s.Turn != nil && x.Turn != nil { // a person without the encryption key may have cancelled the saga
		s.Turn = &turn{*x.Turn}
	}
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		b := &s.Steps[i]
		was := x.Steps[b.full()]
		b.Input, b.Result = was.Input, was.Result
		if b.Failure != nil && was.Failure != nil {
			b.Failure = was.Failure
		}
	}
	return s, nil
}

func decrypt(e once.Encrypter, encrypted, label []byte) ([]byte, error) {
	if e == nil {
		return nil, errNoEncrypter
	}
	return e.Decrypt(encrypted, label) //nolint:wrapcheck // the callers wrap it
}

// sealResult encrypts the result of a saga.
func sealResult(e once.Encrypter, id store.ID, r store.Result) (store.Result, error) {
	if e == nil {
		return r, nil
	}
	body, err := e.Encrypt(r.Body, label(id, "result"))
	if err != nil {
		return store.Result{}, fmt.Errorf("saga: the result of the saga cannot be encrypted: %w", err)
	}
	r.Body = body
	return r, nil
}

// openResult decrypts the result of a saga that has ended.
func openResult(e once.Encrypter, id store.ID, rec store.Record) ([]byte, error) {
	if rec.Data == nil { // the run that has ended the saga has the result, which is not encrypted
		return rec.Result.Body, nil
	}
	s, err := decodeSaved(rec)
	if err != nil || s.Sealed == nil {
		return rec.Result.Body, err
	}
	return decrypt(e, rec.Result.Body, label(id, "result"))
}
