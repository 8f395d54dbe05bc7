package oncegrpc

import (
	"fmt"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/oncelib/once/internal/rpc"
)

// marshal returns the bytes by which requests are compared.
func marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// fresh returns a request as it was before a handler could change it. The request is built from its stored bytes.
func fresh(req any, asked []byte) (proto.Message, error) {
	m := req.(proto.Message).ProtoReflect().New().Interface() //nolint:forcetypeassert // it was marshalled
	return m, proto.Unmarshal(asked, m)
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
		return nil, fmt.Errorf("oncegrpc: the stored answer has the protobuf type %s, which this program does not know: %w. Try: a program that imports the Go package of this type", a.Type, err)
	}
	m := t.New().Interface()
	return m, proto.Unmarshal(a.Body, m)
}

const typeURL = "type.googleapis.com/"

func statusOf(s *status.Status) *rpc.Status {
	stored := &rpc.Status{Code: rpc.Code(s.Code()), Message: s.Message()}
	for _, d := range s.Proto().GetDetails() {
		stored.Details = append(stored.Details, rpc.Detail{Type: strings.TrimPrefix(d.GetTypeUrl(), typeURL), Value: d.GetValue()})
	}
	return stored
}

func protoOf(stored *rpc.Status) *spb.Status {
	s := &spb.Status{Code: int32(stored.Code), Message: stored.Message}
	for _, d := range stored.Details {
		s.Details = append(s.Details, &anypb.Any{TypeUrl: typeURL + d.Type, Value: d.Value})
	}
	return s
}

// harmless reports whether the .proto file declares that a method has no effect that could be made twice. A method whose
// descriptor is not linked in is not harmless.
func harmless(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	options, ok := d.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}
