package rpc

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// Answer is the answer of a handler: a message or a status.
type Answer struct {
	Type   string // the full name of the message type
	Body   []byte // the encoded message
	Status *Status
	Says   string // the value of the status header; "": the outcome of the call
}

// saying sets the status header of an undo's answer, unless the answer is a status.
func (a Answer) saying(says string) Answer {
	if a.Status == nil {
		a.Says = says
	}
	return a
}

// Status is an answer that is not a message.
type Status struct {
	Code    Code     `json:"code"`
	Message string   `json:"-"`
	Details []Detail `json:"details,omitempty"`
}

// Detail is a message with more information about a status.
type Detail struct {
	Type  string `json:"type"` // full name
	Value []byte `json:"value"`
}

// typeField is the header of a record that contains the type of its message.
const typeField = "Message-Type"

// encode returns the stored form of an answer. A message larger than most is omitted. A status is stored as a [once.Failure], as
// in every other transport.
func encode(a Answer, most int64) (once.Answer, error) {
	if a.Status == nil {
		r := store.Result{Header: []store.Field{{Name: typeField, Value: a.Type}}, Body: a.Body}
		// The writes are committed all the same. Only the answer is not kept.
		if int64(len(a.Body)) > most {
			r = store.Result{Kind: store.ResultOmitted}
		}
		return once.Answer{Result: r}, nil
	}
	detail, err := json.Marshal(a.Status)
	if err != nil {
		return once.Answer{}, err
	}
	body, err := json.Marshal(once.Failure{Code: "rpc", Message: a.Status.Message, Detail: detail})
	return once.Answer{Result: store.Result{Kind: store.ResultFailure, Body: body}, Rollback: true}, err
}

func decode(r store.Result) (a Answer, err error) {
	switch r.Kind {
	case store.ResultValue:
		for _, f := range r.Header {
			if f.Name == typeField {
				return Answer{Type: f.Value, Body: r.Body}, nil
			}
		}
		return a, fmt.Errorf("the stored result is not a protobuf message, because it has no %s", typeField)
	case store.ResultFailure:
		var f once.Failure
		if err = json.Unmarshal(r.Body, &f); err == nil {
			a.Status = &Status{Message: f.Message}
			err = json.Unmarshal(f.Detail, a.Status)
		}
		return a, err
	}
	return a, errors.New("the record has no result: the result was larger than Config.MaxStored, or was deleted")
}
