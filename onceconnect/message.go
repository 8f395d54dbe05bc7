package onceconnect

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/oncelib/once/internal/rpc"
)

var errNoMessage = errors.New("onceconnect: the request or the answer is not a protobuf message. Try: exclude methods with other codecs with Config.Protects")

// marshal returns the bytes by which requests are compared.
func marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func messageOf(message any) (a rpc.Answer, err error) {
	a.Body, err = marshal(message)
	if err == nil {
		a.Type = string(message.(proto.Message).ProtoReflect().Descriptor().FullName()) //nolint:forcetypeassert // it was marshalled
	}
	return a, err
}

// outputOf returns the full name of the message that a method answers with, or "" if its descriptor is not linked in.
func outputOf(method string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	if d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name)); err == nil {
		if m, ok := d.(protoreflect.MethodDescriptor); ok {
			return string(m.Output().FullName())
		}
	}
	return ""
}

func messageFrom(a rpc.Answer) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(a.Type))
	if err != nil {
		return nil, fmt.Errorf("onceconnect: the stored answer has the protobuf type %s, which this program does not know: %w. Try: a program that imports the Go package of this type", a.Type, err)
	}
	m := t.New().Interface()
	return m, proto.Unmarshal(a.Body, m)
}

// replayed is a response with a message whose type is known only at run time.
type replayed struct {
	connect.AnyResponse

	message proto.Message
}

// Any implements [connect.AnyResponse].
func (r *replayed) Any() any { return r.message }

func replay(m proto.Message) connect.AnyResponse {
	return &replayed{connect.NewResponse(new(emptypb.Empty)), m}
}

func statusOf(e *connect.Error) *rpc.Status {
	s := &rpc.Status{Code: rpc.Code(e.Code()), Message: e.Message()}
	for _, d := range e.Details() {
		s.Details = append(s.Details, rpc.Detail{Type: d.Type(), Value: d.Bytes()})
	}
	return s
}

const typeURL = "type.googleapis.com/"

// errorFrom returns an error with the status s. cause is the handler's error when the call is executed, and nil in a
// replay.
func errorFrom(s *rpc.Status, cause error) *connect.Error {
	e := connect.NewError(connect.Code(s.Code), &statusError{s.Message, cause})
	for _, d := range s.Details {
		if detail, err := connect.NewErrorDetail(&anypb.Any{TypeUrl: typeURL + d.Type, Value: d.Value}); err == nil {
			e.AddDetail(detail)
		}
	}
	if own := (*connect.Error)(nil); errors.As(cause, &own) {
		maps.Copy(e.Meta(), own.Meta().Clone())
	}
	return e
}

// statusError is an error with the text that the client receives.
type statusError struct {
	message string
	cause   error
}

func (e *statusError) Error() string { return e.message }
func (e *statusError) Unwrap() error { return e.cause }
