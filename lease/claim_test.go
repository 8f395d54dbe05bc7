package lease_test

import (
	"reflect"
	"testing"

	"github.com/oncelib/once/lease"
)

// TestAHandlerCannotEndItsRun: what a handler gets can tell which operation it is, and nothing else. A method by which it could
// commit, roll back or wait for the engine's end would be the engine's.
func TestAHandlerCannotEndItsRun(t *testing.T) {
	var methods []string
	for run, i := reflect.TypeFor[*lease.Run](), 0; i < run.NumMethod(); i++ {
		methods = append(methods, run.Method(i).Name)
	}
	if len(methods) != 1 || methods[0] != "Operation" {
		t.Errorf("a handler can call %v of its run, want Operation alone", methods)
	}
}
