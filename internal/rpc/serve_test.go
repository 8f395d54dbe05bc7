package rpc

import (
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
)

// TestAMessageCounts towards what may be kept in memory by calls that wait.
func TestAMessageCounts(t *testing.T) {
	s := &Server[*memstore.Tx]{Engine: once.New[*memstore.Tx](memstore.New(), once.Config{})}
	op, p := s.operation(Call{
		Principal: "p", Method: "/s/M", Message: make([]byte, 12345),
		Header: func(name string) []string { return map[string][]string{KeyHeader: {"k"}}[name] },
	})
	if p != nil || op.Attempt.Bytes != 12345 {
		t.Errorf("%+v, %v", op, p)
	}
}
