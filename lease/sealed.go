package lease

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
)

// If the engine has an Encrypter, the results of phases and the frozen requests are encrypted in the record. The names of phases and
// the codes of failures are not encrypted, because people and other programs read them without the key.

var errNoEncrypter = errors.New("the data is encrypted, but the engine has no Encrypter. Try: the once.Config.Encrypter that the earlier run had")

// label binds encrypted data to its operation, its phase and its kind.
func (r *Run) label(kind, phase string) []byte {
	return append(seal.Label(r.id.Scope, r.id.Key), "\x00"+kind+"\x00"+phase...)
}

// seal encrypts the value or the failure of a phase, if the engine has an Encrypter.
func (r *Run) seal(p phase) (_ phase, err error) {
	if r.opts.Encrypter == nil {
		return p, nil
	}
	plain := []byte(p.Value)
	if p.Failure != nil {
		if plain, err = json.Marshal(p.Failure); err != nil {
			return p, err
		}
		p.Failure = &once.Failure{Code: p.Failure.Code}
	}
	p.Value = nil
	if p.Sealed, err = r.opts.Encrypter.Encrypt(plain, r.label("outcome", p.Name)); err != nil {
		return p, fmt.Errorf("the result of phase %q cannot be encrypted: %w", p.Name, err)
	}
	return p, nil
}

// open returns a phase as it was before it was sealed.
func (r *Run) open(p phase) (phase, error) {
	if p.Sealed == nil {
		return p, nil
	}
	plain, err := r.decrypt(p.Sealed, "outcome", p.Name)
	if err != nil {
		return p, fmt.Errorf("the saved result of phase %q cannot be decrypted: %w", p.Name, err)
	}
	if p.Failure == nil {
		p.Value = plain
		return p, nil
	}
	p.Failure = new(once.Failure)
	return p, json.Unmarshal(plain, p.Failure)
}

// freeze sets the request of a call that is about to begin.
func (r *Run) freeze(c *intent, request []byte) (err error) {
	c.Request, c.Sealed = request, false
	if request == nil || r.opts.Encrypter == nil {
		return nil
	}
	if c.Request, err = r.opts.Encrypter.Encrypt(request, r.label("request", c.Phase)); err != nil {
		return fmt.Errorf("the request of the call cannot be encrypted: %w", err)
	}
	c.Sealed = true
	return nil
}

// frozen returns the request of a call that was begun.
func (r *Run) frozen(c *intent) (request []byte, err error) {
	if !c.Sealed {
		return c.Request, nil
	}
	request, err = r.decrypt(c.Request, "request", c.Phase)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the stored request of the call cannot be decrypted: %w", err)
	case request == nil:
		// nil would mean that the call has no frozen request.
		request = []byte{}
	}
	return request, nil
}

func (r *Run) decrypt(encrypted []byte, kind, phase string) ([]byte, error) {
	if r.opts.Encrypter == nil {
		return nil, errNoEncrypter
	}
	return r.opts.Encrypter.Decrypt(encrypted, r.label(kind, phase)) //nolint:wrapcheck // its callers do
}
