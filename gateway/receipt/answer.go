package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/oncelib/once/gateway"
)

// States of an operation at an endpoint.
const (
	stateCommitted = "committed" // the receipt exists
	stateTombstone = "tombstone" // the operation can never commit
	stateNone      = "none"      // neither exists, which proves nothing
)

// answer is the answer of an endpoint in JSON. The body is encoded as base64.
type answer struct {
	Operation   string          `json:"operation"`
	State       string          `json:"state"`
	Fingerprint string          `json:"fingerprint,omitempty"`
	Status      int             `json:"status,omitempty"`
	Header      json.RawMessage `json:"header,omitempty"` // {"Content-Type": "application/json"}; a value may be a list
	Body        []byte          `json:"body,omitempty"`
}

// answerOf returns the answer for a receipt.
func answerOf(operation string, r gateway.Receipt, found bool) (a answer, err error) {
	a = answer{Operation: operation, State: stateNone}
	switch {
	case found && r.Tombstone:
		a.State = stateTombstone
	case found:
		a = answer{operation, stateCommitted, r.Fingerprint, r.Status, nil, r.Body}
		if r.Header != nil {
			a.Header, err = json.Marshal(r.Header)
		}
	}
	return a, err
}

// parseAnswer reads the answer of an endpoint about an operation. It accepts only an exact answer. If it took
// any other text for a tombstone, the gateway would forward the request again, and the request could take
// effect twice.
func parseAnswer(text []byte, operation string) (r gateway.Receipt, found bool, err error) {
	a, err := decodeAnswer(text)
	if err != nil {
		return r, false, err
	}
	// A cache or a proxy may have returned the answer to another question.
	if a.Operation != operation {
		return r, false, fmt.Errorf("the answer is about another operation, %q", a.Operation)
	}
	bare := a.Fingerprint == "" && a.Status == 0 && len(a.Header) == 0 && len(a.Body) == 0
	switch {
	case a.State == stateNone && bare:
		return r, false, nil
	case a.State == stateTombstone && bare:
		return gateway.Receipt{Operation: operation, Tombstone: true}, true, nil
	case a.State != stateCommitted:
		return r, false, fmt.Errorf("the answer has the state %q and the status %d, which do not belong together", a.State, a.Status)
	case a.Status < 200 || a.Status > 599:
		return r, false, fmt.Errorf("the answer has the status %d, and the status of a receipt must be from 200 to 599", a.Status)
	}
	r = gateway.Receipt{Operation: operation, Fingerprint: a.Fingerprint, Status: a.Status}
	if len(a.Body) > 0 {
		r.Body = a.Body
	}
	if len(a.Header) > 0 {
		if r.Header, err = parseHeader(a.Header); err != nil {
			return gateway.Receipt{}, false, err
		}
	}
	return r, true, nil
}

// decodeAnswer reads one JSON object strictly. Package json would accept names in any letter case, and would
// take the last of two members with the same name.
func decodeAnswer(text []byte) (a answer, err error) {
	fields := map[string]any{"operation": &a.Operation, "state": &a.State, "fingerprint": &a.Fingerprint, "status": &a.Status, "header": &a.Header, "body": &a.Body}
	dec := json.NewDecoder(bytes.NewReader(text))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return a, errors.Join(errors.New("the answer is not a JSON object"), err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return a, err
		}
		field := fields[name.(string)] //nolint:forcetypeassert // the name of a field is a string
		if field == nil {
			return a, fmt.Errorf("the answer has the unknown or duplicate field %q", name)
		}
		// Each name may occur only once.
		delete(fields, name.(string)) //nolint:forcetypeassert // see above
		if err := dec.Decode(field); err != nil {
			return a, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return a, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return a, errors.New("more data follows the JSON object of the answer")
	}
	return a, nil
}
