package rpc

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// Answer is the answer of a handler: a message, or a status in its place.
type Answer struct {
	Type   string // full name of the message
	Body   []byte // the message
	Status *Status
	Says   string // the status header in the metadata, in place of the outcome; "": the outcome
}

// saying is the answer of an undo, unless it is a no.
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

// Detail is a message that says more about a status.
type Detail struct {
	Type  string `json:"type"` // full name
	Value []byte `json:"value"`
}

// typeField is the header line of a record that names the type of its message.
const typeField = "Message-Type"

// encode returns the stored form of an answer; a message larger than
// most is left out. A status is a [once.Failure], as the value
// of an operation in any other transport would be.
func encode(a Answer, most int64) (once.Answer, error) {
	if a.Status == nil {
		r := store.Result{Header: []store.Field{{Name: typeField, Value: a.Type}}, Body: a.Body}
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
